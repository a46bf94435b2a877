"""Time zones by their IANA names; what else people write for one is refused with the name that they want."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final
from zoneinfo import ZoneInfo

from flo.engine.errors import FloError, did_you_mean

_ABBREVIATIONS: Final = {
    "ACDT": "Australia/Adelaide",
    "ACST": "Australia/Adelaide",
    "ADT": "America/Halifax",
    "AEDT": "Australia/Sydney",
    "AEST": "Australia/Sydney",
    "AKDT": "America/Anchorage",
    "AKST": "America/Anchorage",
    "AST": "America/Halifax",
    "AWST": "Australia/Perth",
    "BRT": "America/Sao_Paulo",
    "BST": "Europe/London",
    "CDT": "America/Chicago",
    "CEST": "Europe/Berlin",
    "CET": "Europe/Berlin",
    "CLST": "America/Santiago",
    "CLT": "America/Santiago",
    "CST": "America/Chicago",
    "CST6CDT": "America/Chicago",
    "EDT": "America/New_York",
    "EEST": "Europe/Athens",
    "EET": "Europe/Athens",
    "EST": "America/New_York",
    "EST5EDT": "America/New_York",
    "HKT": "Asia/Hong_Kong",
    "HST": "Pacific/Honolulu",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "KST": "Asia/Seoul",
    "MDT": "America/Denver",
    "MEST": "Europe/Berlin",
    "MESZ": "Europe/Berlin",
    "MET": "Europe/Berlin",
    "MEZ": "Europe/Berlin",
    "MSK": "Europe/Moscow",
    "MST": "America/Denver",
    "MST7MDT": "America/Denver",
    "NDT": "America/St_Johns",
    "NST": "America/St_Johns",
    "NZDT": "Pacific/Auckland",
    "NZST": "Pacific/Auckland",
    "PDT": "America/Los_Angeles",
    "PST": "America/Los_Angeles",
    "PST8PDT": "America/Los_Angeles",
    "SAST": "Africa/Johannesburg",
    "SGT": "Asia/Singapore",
    "WEST": "Europe/Lisbon",
    "WET": "Europe/Lisbon",
}
"""Of each abbreviation the zone that most people mean by it; tzdata has some of them as zones of the past."""

_OFFSET: Final = re.compile(r"(?:UTC|GMT|Z)?\s*([+-])([0-9]{1,2})(?::?([0-9]{2}))?", re.IGNORECASE)
_MOST_EAST, _MOST_WEST = 14, 12


class ZoneInvalid(FloError):
    """No time zone has this name; says which one is meant."""

    def __init__(self, name: str, hint: str) -> None:
        self.name = name
        shown = name if len(name) <= 60 else f"{name[:59]}…"
        super().__init__(f"no time zone {shown!r}{hint}")


def parse_zone(name: str) -> ZoneInfo:
    """Give the zone of an IANA name, in any case; its ``key`` is spelled as IANA does. Raises ZoneInvalid.

    The names are those of tzdata on every machine: what the system has beside them (``localtime``, ``right/…``) is
    not asked.
    """
    folded = name.lower()
    if usual := _ABBREVIATIONS.get(name.upper()):
        raise ZoneInvalid(name, f": an abbreviation does not say when clocks change; did you mean {usual!r}?")
    if known := _known().get(folded):
        return ZoneInfo(known)
    if folded in ("local", "localtime", "system"):
        raise ZoneInvalid(
            name, ": another machine may be in another zone; expected an IANA name such as 'Europe/Berlin'"
        )
    if folded == "z":
        raise ZoneInvalid(name, "; did you mean 'UTC'?")
    if offset := _OFFSET.fullmatch(name):
        raise ZoneInvalid(name, _of_offset(offset))
    raise ZoneInvalid(name, _near(folded))


@cache
def _known() -> Mapping[str, str]:
    """IANA's names by themselves in small letters."""
    names = files("tzdata").joinpath("zones").read_text(encoding="ascii").split()
    return MappingProxyType({name.lower(): name for name in names if name != "Factory"})


def _of_offset(found: re.Match[str]) -> str:
    sign, hours, minutes = found[1], int(found[2]), int(found[3] or 0)
    if not hours and not minutes:
        return "; did you mean 'UTC'?"
    most = _MOST_EAST if sign == "+" else _MOST_WEST
    why = ": an offset does not say when clocks change; name a place, such as 'Europe/Berlin'"
    if minutes or hours > most:
        return why
    turned = "-" if sign == "+" else "+"
    return f"{why}, or 'Etc/GMT{turned}{hours}', which is {sign}{hours:02}:00 all year (its sign is turned round)"


def _near(folded: str) -> str:
    """The zone of that city, or the nearest name."""
    if not folded or len(folded) > 60:
        return "; expected an IANA name such as 'Europe/Berlin', or 'UTC'"
    names = _known()
    cities = {name.rpartition("/")[2].lower(): name for name in names.values()}
    wanted = folded.replace(" ", "_")
    if exact := names.get(wanted) or cities.get(wanted):
        return f"; did you mean {exact!r}?"
    if hint := did_you_mean(wanted, names.values()):
        return hint
    if near := get_close_matches(wanted, cities, n=1):
        return f"; did you mean {cities[near[0]]!r}?"
    return "; expected an IANA name such as 'Europe/Berlin', or 'UTC'"
