"""The SQLite file: made with care, opened by many, and clear about what is wrong with it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from flo.engine.errors import FloError, InputInvalid, StoreFull, StoreUnavailable
from flo.engine.executions import ExecutionState
from flo.engine.jobs import LEASE, Delivery, Ended, Request
from flo.engine.stores.filters import EVERY, parse_where
from flo.engine.stores.sqlite import SqliteStore
from flo.engine.stores.sqlite_reserve import RESERVE_BYTES
from flo.testing import FrozenClock

Opener = Callable[..., SqliteStore]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".flo" / "flo.sqlite"


@pytest.fixture
def opened(clock: FrozenClock) -> Iterator[Opener]:
    """Opens stores that are closed when the test ends."""
    stores: list[SqliteStore] = []

    def open_store(path: Path, **options: str) -> SqliteStore:
        stores.append(SqliteStore.open(path, clock, **options))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def setting(path: Path, name: str) -> object:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"PRAGMA {name}").fetchone()[0]


def test_only_the_owner_may_read_what_is_made(opened: Opener, path: Path) -> None:
    store = opened(path)
    store.migrate()
    store.data.set("t", "k", 1)
    assert mode(path.parent) == 0o700
    assert {held.name: mode(held) for held in path.parent.iterdir()} == dict.fromkeys(
        (held.name for held in path.parent.iterdir()), 0o600
    )


def test_the_permissions_of_a_folder_that_is_there_are_left_alone(opened: Opener, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    opened(tmp_path / "flo.sqlite")
    assert mode(tmp_path) == 0o755


def test_the_file_keeps_a_write_ahead_log_and_can_shrink(opened: Opener, path: Path) -> None:
    opened(path).migrate()
    assert setting(path, "journal_mode") == "wal"
    assert setting(path, "auto_vacuum") == 2
    vitals = opened(path).vitals()
    assert (vitals["adapter"], vitals["journalMode"], vitals["synchronous"]) == ("sqlite", "wal", "FULL")
    assert vitals["schemaVersion"] == vitals["knownSchemaVersion"]


def test_an_empty_file_becomes_a_store(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    opened(tmp_path / "empty").migrate()
    assert setting(tmp_path / "empty", "journal_mode") == "wal"


def test_a_relative_path_is_of_the_folder_in_which_it_was_opened(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = opened(Path("flo.sqlite"))
    monkeypatch.chdir("/")
    store.migrate()
    assert (store.url, (tmp_path / "flo.sqlite").exists()) == ("sqlite:flo.sqlite", True)


def test_rows_are_there_when_the_file_is_opened_again(opened: Opener, path: Path) -> None:
    first = opened(path)
    first.migrate()
    first.data.set("t", "k", {"n": 2**70})
    first.close()
    row = opened(path).data.get("t", "k")
    assert row is not None
    assert row.value == {"n": 2**70}


def test_a_file_that_is_no_database_is_named(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("these are notes, and no database at all\n" * 100)
    with pytest.raises(StoreUnavailable, match=r"notes\.txt is no SQLite database; name another file"):
        opened(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text().startswith("these are notes")


def test_a_folder_is_no_file(opened: Opener, tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="is no file; name a file"):
        opened(tmp_path)


def test_a_file_in_the_way_of_the_folder_is_named(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="file"):
        opened(tmp_path / "file" / "flo.sqlite")


def test_an_unknown_care_is_refused(opened: Opener, path: Path) -> None:
    with pytest.raises(InputInvalid, match="synchronous is 'sometimes'; it must be one of FULL, NORMAL"):
        opened(path, synchronous="sometimes")
    assert opened(path, synchronous="normal").vitals()["synchronous"] == "NORMAL"


def test_a_store_without_a_schema_says_what_to_do(opened: Opener, path: Path) -> None:
    store = opened(path)
    assert store.schema_version() == 0
    with pytest.raises(StoreUnavailable, match="run flo migrate"):
        store.data.get("t", "k")
    with pytest.raises(StoreUnavailable, match="run flo migrate"):
        store.data.set("t", "k", 1)


def test_a_closed_store_says_so(opened: Opener, path: Path) -> None:
    store = opened(path)
    store.migrate()
    store.close()
    store.close()
    attempts: list[Callable[[], object]] = [lambda: store.data.get("t", "k"), lambda: store.data.set("t", "k", 1)]
    for attempt in attempts:
        with pytest.raises(StoreUnavailable, match="is closed"):
            attempt()


def test_a_full_disk_changes_nothing_and_is_told(opened: Opener, path: Path) -> None:
    store = opened(path)
    store.migrate()
    store.data.set("t", "k", {"n": 1})
    store._database.write(lambda execute: execute("PRAGMA max_page_count = 60"))
    with pytest.raises(StoreFull, match="the disk is full; free some space"):
        store.data.set_many("t", [(f"k{number}", "x" * 10_000) for number in range(100)])
    assert store.data.count("t", EVERY) == 1
    assert store.data.set("t", "k", {"n": 2}).row.value == {"n": 2}


def test_a_vital_write_gets_the_space_that_was_set_aside_and_others_do_not(opened: Opener, path: Path) -> None:
    database, reserve = opened(path)._database, Path(f"{path}-reserve")

    def work(execute: object) -> str:
        if reserve.stat().st_size:
            raise StoreFull("full, but for the reserve")
        return "written"

    with pytest.raises(StoreFull):
        database.write(work)
    assert database.write(work, vital=True) == "written"
    assert reserve.stat().st_size == RESERVE_BYTES


@pytest.mark.parametrize("free", [60, 100, 300])
def test_an_execution_ends_on_a_full_disk(
    opened: Opener, tmp_path: Path, free: int, request: pytest.FixtureRequest
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this user may not mount a small disk")
    request.addfinalizer(lambda: subprocess.run(["umount", str(disk)], check=True))
    store = opened(disk / "flo.sqlite")
    request.addfinalizer(store.close)
    store.migrate()
    held = store.queue.start(Request("{}", "d", {}, queue=None, id="e1"), worker="w1", lease=LEASE)
    assert isinstance(held, Delivery)
    (disk / "fill").write_bytes(bytes(shutil.disk_usage(disk).free - free * 1024))

    def fill_up() -> None:
        for number in range(1000):
            store.data.set("t", f"k{number}", "x")

    with pytest.raises(StoreFull):
        fill_up()
    error = {"code": "store_error", "message": "full"}
    ended = store.queue.conclude(held.hold, Ended(ExecutionState.FAILED, error=error))
    assert (ended.state, ended.error) == (ExecutionState.FAILED, error)
    assert store.executions.get("e1") == ended


def test_space_is_given_back_when_rows_go(opened: Opener, path: Path, clock: FrozenClock) -> None:
    store = opened(path, synchronous="OFF")
    store.migrate()
    store.data.set_many("t", [(f"k{number}", "x" * 8000) for number in range(3000)])
    store.data.delete("t", EVERY)
    before = int(str(setting(path, "page_count")))
    while int(str(setting(path, "freelist_count"))) > 2000:
        store.data.remove_expired()
    assert int(str(setting(path, "page_count"))) < before / 2


def test_a_lock_of_another_program_is_waited_for(opened: Opener, path: Path) -> None:
    store = opened(path)
    store.migrate()
    hold = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); c.execute('BEGIN IMMEDIATE');"
    wait = "print('held', flush=True); sys.stdin.readline(); c.execute('COMMIT')"
    with subprocess.Popen(
        [sys.executable, "-c", hold + wait, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert store.data.get("t", "k") is None
        other.stdin.write("go on\n")
        other.stdin.flush()
        assert store.data.set("t", "k", 1).created
        other.communicate()


def test_two_stores_on_one_file_agree_in_one_process(opened: Opener, path: Path) -> None:
    first, second = opened(path), opened(path)
    first.migrate()
    for number in range(20):
        first.data.set("t", f"a{number}", number)
        second.data.set("t", f"b{number}", number)
    assert first.data.count("t", EVERY) == second.data.count("t", EVERY) == 40
    second.close()
    first.data.set("t", "c", 1)


def test_a_damaged_file_is_told(opened: Opener, path: Path) -> None:
    store = opened(path)
    store.migrate()
    store.data.set_many("t", [(f"k{number}", "x" * 500) for number in range(200)])
    store.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(size - 4096))
    with pytest.raises(FloError, match=r"is damaged|is no SQLite database"):
        opened(path).data.count("t", parse_where([{"field": "x", "operator": "set"}]))


def test_a_row_expires_by_the_clock_of_the_store(opened: Opener, path: Path, clock: FrozenClock) -> None:
    store = opened(path)
    store.migrate()
    store.data.set("t", "k", 1, ttl=timedelta(seconds=1))
    clock.forward(timedelta(seconds=1))
    assert store.data.get("t", "k") is None
