"""``flo doctor`` and ``flo migrate``."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from flo.engine import app
from flo.engine.clock import SystemClock
from flo.engine.stores.filters import EVERY
from flo.engine.testing import FrozenClock


def test_doctor_tells_versions_the_store_and_its_tables(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        engine.data.set_many("ops", [("a", {"status": "pending"}), ("b", {"status": "done"})])
    answer = flo("doctor", "--store", shared_url, "--json")
    assert answer.code == 0
    found = answer.json
    assert found["reachable"] is True
    assert found["vitals"]["schemaVersion"] == found["vitals"]["knownSchemaVersion"]
    assert found["tables"] == [{"name": "ops", "rows": 2, "staleClaims": 0}]
    text = flo("doctor", "--store", shared_url).out
    for word in (found["flo"], found["python"], "ops", found["vitals"]["adapter"]):
        assert word in text


def test_doctor_counts_claims_that_were_left_behind(flo: Any, sqlite_url: str) -> None:
    before = FrozenClock(SystemClock().now() - timedelta(minutes=6))
    with app.open(sqlite_url, clock=before) as engine:
        engine.data.set_many("ops", [(f"k{number}", {"status": "pending"}) for number in range(3)])
        engine.data.claim("ops", EVERY, (), limit=2, holder="gone", changes=())
    answer = flo("doctor", "--store", sqlite_url, "--json")
    assert answer.json["tables"] == [{"name": "ops", "rows": 3, "staleClaims": 2}]
    assert "stale-claim-recovery" in flo("doctor", "--store", sqlite_url).err


def test_doctor_of_a_store_that_cannot_be_reached_tells_the_rest_and_ends_with_2(flo: Any) -> None:
    answer = flo("doctor", "--store", "postgresql://flo:s3cret@127.0.0.1:1/flo", "--json")
    assert answer.code == 2
    assert answer.json["reachable"] is False
    assert answer.json["python"]
    assert answer.err.startswith("error: postgresql://flo@127.0.0.1:1/flo cannot be reached: ")
    assert "s3cret" not in answer.out + answer.err


def test_a_wrong_password_is_said_and_not_shown(flo: Any, postgres_url: str) -> None:
    host = urlsplit(postgres_url).netloc.rpartition("@")[2]
    answer = flo("doctor", "--store", f"postgresql://nobody:s3cret@{host}/nothing", "--json")
    assert answer.code == 2
    assert "s3cret" not in answer.out + answer.err


def test_doctor_changes_nothing_and_migrate_says_from_where_to_where(flo: Any, folder: Path) -> None:
    assert flo("doctor", "--json").json["vitals"]["schemaVersion"] == 0
    first = flo("migrate", "--json").json
    assert first["from"] == 0
    assert first["to"] > 0
    assert flo("migrate").out == f"{first['to']} -> {first['to']}\n"
    assert flo("doctor", "--json").json["vitals"]["schemaVersion"] == first["to"]


def test_a_store_that_a_newer_flo_wrote_is_refused(flo: Any, sqlite_url: str) -> None:
    import sqlite3
    from contextlib import closing

    app.open(sqlite_url).close()
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:"))) as connection, connection:
        connection.execute("INSERT INTO migrations (number, applied_at) VALUES (999, '')")
    for command in (["migrate"], ["list"], ["data", "tables"]):
        answer = flo(*command, "--store", sqlite_url)
        assert (answer.code, answer.out) == (2, "")
        assert "install a newer flo-engine" in answer.err
