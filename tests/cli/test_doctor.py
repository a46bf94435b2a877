"""``flo doctor`` and ``flo migrate``."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from flo.engine import app
from flo.engine.clock import SystemClock
from flo.engine.commands import doctor
from flo.engine.stores.filters import EVERY
from flo.testing import FrozenClock

from .jobs import NO_TIME, claimed, dead, enqueued


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


def test_doctor_tells_how_the_queues_stand(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        dead(engine, queue="mail")
        enqueued(engine, queue="sms")
    queues = flo("doctor", "--store", shared_url, "--json").json["queues"]
    assert [(info["name"], info["due"], info["dead"]) for info in queues] == [("mail", 0, 1), ("sms", 1, 0)]
    answer = flo("doctor", "--store", shared_url)
    assert "LAST-MINUTE" in answer.out
    assert answer.err == "warning: dead letters: 1; 'flo dead list' tells why, 'flo dead replay' runs them anew\n"


def test_doctor_counts_executions_whose_lease_ran_out(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        claimed(engine, lease=NO_TIME)
        claimed(engine, queue="other")
    found = flo("doctor", "--store", shared_url, "--json").json
    assert found["vitals"]["expiredLeases"] == 1
    assert any("lease ran out" in warning and ": 1;" in warning for warning in found["warnings"])


def test_doctor_names_queues_that_nobody_serves_and_those_that_are_paused(flo: Any, sqlite_url: str) -> None:
    with app.open(sqlite_url, clock=FrozenClock(SystemClock().now() - timedelta(hours=2, minutes=5))) as engine:
        for queue in ("idle", "served", "paused"):
            enqueued(engine, queue=queue)
        engine.store.queue.pause("paused")
    with app.open(sqlite_url) as engine:
        claimed_id = enqueued(engine, queue="served", priority=9)
        (delivery,) = engine.store.queue.claim(["served"], worker="w", lease=timedelta(hours=1), limit=1).deliveries
        assert delivery.execution.id == claimed_id
        enqueued(engine, queue="new")
    assert flo("doctor", "--store", sqlite_url, "--json").json["warnings"] == [
        "queue 'idle' has 1 due, the oldest for 2h 5m, and nothing runs: does a worker serve it?",
        "queue 'paused' is paused and has 1 due: 'flo queues resume' gives them again",
    ]


def test_doctor_of_a_store_whose_schema_is_older_leaves_the_queues_out(flo: Any, folder: Path) -> None:
    found = flo("doctor", "--json").json
    assert (found["queues"], found["tables"], found["warnings"]) == ([], [], [])
    assert "expiredLeases" not in found["vitals"]


def test_doctor_names_who_keeps_a_transaction_open(
    flo: Any, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    monkeypatch.setattr(doctor, "LONG_TRANSACTION_SECONDS", 0.0)
    query = f"SELECT '{'x' * 100}'"
    with psycopg.connect(postgres_url, application_name="report") as other:
        other.execute(query.encode())
        pid = other.info.backend_pid
        found = flo("doctor", "--store", postgres_url, "--json").json
    oldest = found["vitals"]["oldestTransaction"]
    assert (oldest["pid"], oldest["application"], oldest["state"]) == (pid, "report", "idle in transaction")
    assert oldest["query"] == query[:80]
    assert found["vitals"]["oldestTransactionSeconds"] == oldest["seconds"]
    (warning,) = found["warnings"]
    assert f"process {pid} of report" in warning
    assert query[:80] in warning
    assert query[:81] not in warning
    ended = flo("doctor", "--store", postgres_url, "--json").json
    assert (ended["vitals"]["oldestTransaction"], ended["warnings"]) == (None, [])


def test_doctor_tells_how_vacuum_stands(flo: Any, postgres_url: str) -> None:
    vitals = flo("doctor", "--store", postgres_url, "--json").json["vitals"]
    assert vitals["autovacuum"].keys() == {"enabled", "lastRun", "running"}
    assert vitals["autovacuum"]["enabled"] is True
    assert isinstance(vitals["deadTuples"], int)


def test_doctor_warns_of_a_log_that_has_grown(flo: Any, sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LARGE_LOG_BYTES", 1000)
    with app.open(sqlite_url) as engine:
        engine.data.set("t", "k", "x" * 10_000)
        found = flo("doctor", "--store", sqlite_url, "--json").json
    assert found["vitals"]["logBytes"] > 1000
    assert isinstance(found["vitals"]["freeBytes"], int)
    assert [warning for warning in found["warnings"] if warning.startswith("the log of the store has ")]


def test_a_warning_cannot_move_the_cursor(flo: Any, shared_url: str) -> None:
    with app.open(shared_url) as engine:
        enqueued(engine, queue="a\x1b[2J")
        engine.store.queue.pause("a\x1b[2J")
    answer = flo("doctor", "--store", shared_url)
    assert "\x1b" not in answer.out + answer.err
    assert "is paused and has 1 due" in answer.err


def test_doctor_warns_of_secrets_that_others_may_read(flo: Any, folder: Path) -> None:
    settings = folder / "flo.settings.json"
    settings.write_text('{"environments": {"default": {"KEY": {"secret": "s3cret"}}}}', encoding="utf-8")
    settings.chmod(0o644)
    told = flo("doctor")
    assert "chmod 600 flo.settings.json" in told.err
    assert "s3cret" not in told.err + told.out
    settings.chmod(0o600)
    assert "chmod" not in flo("doctor").err
