"""Several processes on one SQLite file: nobody is refused, starved, or given another's row."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from flo.engine.stores.filters import EVERY, parse_where
from flo.engine.stores.migrations import known_version
from flo.engine.stores.sqlite import SqliteStore
from flo.testing import FrozenClock

CLAIMANT = Path(__file__).with_name("claimant.py")
IN_FLIGHT = parse_where([{"field": "status", "operator": "equals", "value": "in_flight"}])
PENDING = parse_where([{"field": "status", "operator": "equals", "value": "pending"}])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "flo.sqlite"


@pytest.fixture
def store(path: Path, clock: FrozenClock) -> Iterator[SqliteStore]:
    made = SqliteStore.open(path, clock)
    made.migrate()
    yield made
    made.close()


def started(path: Path, name: str, mode: str, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(CLAIMANT), str(path), name, mode, *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> list[Any]:
    """The lines of a process that ends well."""
    out, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def test_every_row_is_claimed_by_one_process(store: SqliteStore, path: Path) -> None:
    store.data.set_many("queue", [(f"k{number:04}", {"status": "pending"}) for number in range(2000)])
    claims = [said(process) for process in [started(path, f"p{number}", "drain") for number in range(4)]]
    keys = Counter(key for rows in claims for claim in rows for key in claim)
    assert len(keys) == 2000
    assert set(keys.values()) == {1}
    assert all(claim == sorted(claim) and len(claim) <= 10 for rows in claims for claim in rows)
    assert store.data.count("queue", PENDING) == 0
    assert store.data.count("queue", IN_FLIGHT) == 2000


def test_no_process_is_refused_or_starved(store: SqliteStore, path: Path) -> None:
    processes = [started(path, f"p{number}", "rounds", "60") for number in range(8)]
    results = [said(process)[0] for process in processes]
    assert [result["failures"] for result in results] == [[]] * 8
    assert max(result["slowest"] for result in results) < 5
    assert store.data.count("queue", PENDING) == 0
    assert store.data.count("queue", EVERY) == 8 * 60


def test_a_killed_process_leaves_its_rows_for_recovery(store: SqliteStore, path: Path, clock: FrozenClock) -> None:
    store.data.set_many("queue", [(f"k{number}", {"status": "pending"}) for number in range(5)])
    with started(path, "dead", "hold") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        keys = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert keys == ["k0", "k1", "k2"]
    assert store.data.count("queue", IN_FLIGHT) == 3
    row = store.data.get("queue", "k0")
    assert row is not None
    stale = parse_where(
        [IN_FLIGHT_CONDITION, {"field": "claimedAt", "operator": "olderThan", "value": "5m"}],
    )
    clock.time = row.updated_at + timedelta(minutes=5)
    assert store.data.claim("queue", stale, (), limit=9, holder="alive", changes=()) == []
    clock.forward(timedelta(seconds=1))
    recovered = store.data.claim("queue", stale, (), limit=9, holder="alive", changes=())
    assert [(row.key, row.claim_count) for row in recovered] == [("k0", 2), ("k1", 2), ("k2", 2)]


IN_FLIGHT_CONDITION = {"field": "status", "operator": "equals", "value": "in_flight"}


def test_processes_that_migrate_at_once_apply_each_step_once(path: Path) -> None:
    processes = [started(path, f"p{number}", "migrate") for number in range(6)]
    steps = sorted(said(process)[0] for process in processes)
    assert sum(steps) == known_version("sqlite")
    assert steps[5] > 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_writes_beside_its_parent(store: SqliteStore, path: Path) -> None:
    with started(path, "p", "fork") as process:
        out, _ = process.communicate(timeout=60)  # newer Pythons warn of forks beside threads
    assert (process.returncode, out.strip()) == (0, "0")
    assert store.data.count("queue", EVERY) == 41
