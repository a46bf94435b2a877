"""Zones go by IANA's names; whatever else people write is refused with the name that they want."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flo.engine.schedule.zones import ZoneInvalid, parse_zone

WITHOUT_SYSTEM_FILES = """
import json
from datetime import datetime
from zoneinfo import TZPATH
from flo.engine.schedule.zones import ZoneInvalid, parse_zone
zones = [parse_zone(name) for name in ("Europe/Berlin", "europe/berlin", "UTC", "Australia/Lord_Howe")]
try:
    parse_zone("Berlin")
except ZoneInvalid as refused:
    hint = str(refused)
print(json.dumps([list(TZPATH), [str(datetime(2027, 7, 1, tzinfo=zone)) for zone in zones], hint]))
"""


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("AMERICA/NEW_YORK", "America/New_York"),
        ("america/argentina/buenos_aires", "America/Argentina/Buenos_Aires"),
        ("UTC", "UTC"),
        ("utc", "UTC"),
        ("GMT", "GMT"),
        ("Etc/GMT-2", "Etc/GMT-2"),
        ("etc/gmt+12", "Etc/GMT+12"),
        ("US/Pacific", "US/Pacific"),
        ("Asia/Calcutta", "Asia/Calcutta"),
    ],
)
def test_a_name_of_iana_is_taken_in_any_case_and_spelled_as_iana_does(name: str, key: str) -> None:
    zone = parse_zone(name)
    assert zone.key == key
    assert zone is ZoneInfo(key)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("CEST", ["abbreviation does not say when clocks change", "'Europe/Berlin'"]),
        ("CET", ["abbreviation", "'Europe/Berlin'"]),
        ("MET", ["abbreviation", "'Europe/Berlin'"]),
        ("EET", ["abbreviation", "'Europe/Athens'"]),
        ("WET", ["abbreviation", "'Europe/Lisbon'"]),
        ("EST", ["abbreviation", "'America/New_York'"]),
        ("EDT", ["abbreviation", "'America/New_York'"]),
        ("edt", ["abbreviation", "'America/New_York'"]),
        ("EST5EDT", ["abbreviation", "'America/New_York'"]),
        ("CST6CDT", ["abbreviation", "'America/Chicago'"]),
        ("MST", ["abbreviation", "'America/Denver'"]),
        ("MST7MDT", ["abbreviation", "'America/Denver'"]),
        ("PST", ["abbreviation", "'America/Los_Angeles'"]),
        ("PST8PDT", ["abbreviation", "'America/Los_Angeles'"]),
        ("HST", ["abbreviation", "'Pacific/Honolulu'"]),
        ("IST", ["abbreviation", "'Asia/Kolkata'"]),
        ("+02:00", ["offset", "'Etc/GMT-2'", "is +02:00", "sign is turned round"]),
        ("UTC+2", ["'Etc/GMT-2'", "is +02:00"]),
        ("GMT+2", ["'Etc/GMT-2'", "is +02:00"]),
        ("utc-0500", ["'Etc/GMT+5'", "is -05:00"]),
        ("UTC +14", ["'Etc/GMT-14'"]),
        ("-12", ["'Etc/GMT+12'"]),
        ("+05:30", ["offset", "name a place"]),
        ("+00:00", ["did you mean 'UTC'?"]),
        ("UTC-0", ["did you mean 'UTC'?"]),
        ("Z", ["did you mean 'UTC'?"]),
        ("Europe/Berln", ["did you mean 'Europe/Berlin'?"]),
        ("Europa/Berlin", ["did you mean 'Europe/Berlin'?"]),
        ("Berlin", ["did you mean 'Europe/Berlin'?"]),
        ("berlin", ["did you mean 'Europe/Berlin'?"]),
        ("Berln", ["did you mean 'Europe/Berlin'?"]),
        ("New York", ["did you mean 'America/New_York'?"]),
        ("America/New York", ["did you mean 'America/New_York'?"]),
        (" Europe/Berlin", ["did you mean 'Europe/Berlin'?"]),
        ("right/Europe/Berlin", ["did you mean 'Europe/Berlin'?"]),
        ("localtime", ["another machine", "'Europe/Berlin'"]),
        ("America", ["did you mean"]),
        ("Factory", []),
        ("", ["'Europe/Berlin'", "'UTC'"]),
        ("../../etc/passwd", ["expected an IANA name"]),
        ("../zoneinfo/Europe/Berlin", []),
        ("/etc/passwd", ["expected an IANA name"]),
        ("/usr/share/zoneinfo/UTC", []),
        ("Europe\\Berlin", ["did you mean 'Europe/Berlin'?"]),
        ("zone.tab", []),
        ("a\x00b", []),
        ("Europe/Berlin\x00", []),
        ("\ud800", []),
        ("x" * 100_000, ["expected an IANA name"]),
    ],
)
def test_what_is_no_zone_is_refused_with_the_name_that_is_meant(name: str, parts: Sequence[str]) -> None:
    with pytest.raises(ZoneInvalid) as refused:
        parse_zone(name)
    assert refused.value.name == name
    assert refused.value.exit_code == 1
    assert str(refused.value).startswith(f"no time zone {name!r}"[:70])
    assert len(str(refused.value)) < 300
    for part in parts:
        assert part in str(refused.value)


@pytest.mark.parametrize(
    ("offset", "named"), [("+02:00", "Etc/GMT-2"), ("UTC-5", "Etc/GMT+5"), ("GMT+14", "Etc/GMT-14")]
)
def test_the_zone_that_is_named_for_an_offset_has_it(offset: str, named: str) -> None:
    with pytest.raises(ZoneInvalid, match=named.replace("+", r"\+")):
        parse_zone(offset)
    ahead = datetime(2027, 7, 1, tzinfo=parse_zone(named)).utcoffset()
    assert ahead is not None
    assert ahead.total_seconds() / 3600 == int(offset.removeprefix("UTC").removeprefix("GMT").removesuffix(":00"))


@settings(deadline=None, max_examples=100)
@given(st.text(max_size=30) | st.text("./\\ABCEGMTUabeilmnoprtu_+-0123:", max_size=20))
def test_any_text_is_a_zone_or_is_refused(name: str) -> None:
    try:
        zone = parse_zone(name)
    except ZoneInvalid:
        return
    assert zone.key.lower() == name.lower()
    assert datetime(2027, 1, 1, tzinfo=UTC).astimezone(zone).utcoffset() is not None


def test_zones_need_no_files_of_the_system() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SYSTEM_FILES],
        env={**os.environ, "PYTHONTZPATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    path, summers, hint = json.loads(done.stdout)
    assert path == []
    assert [moment[-6:] for moment in summers] == ["+02:00", "+02:00", "+00:00", "+10:30"]
    assert "'Europe/Berlin'" in hint
