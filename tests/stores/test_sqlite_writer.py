"""The writer: what comes in together is committed together, and nobody pays for another's mistake."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flo.engine.errors import StoreError, StoreFull, StoreUnavailable
from flo.engine.stores.sqlite_files import create
from flo.engine.stores.sqlite_writer import Writer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "flo.sqlite"
    create(made, "sqlite:flo.sqlite")
    connection = sqlite3.connect(made)
    connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)")
    connection.close()
    return made


@pytest.fixture
def writer(path: Path) -> Iterator[Writer]:
    made = Writer(path, "sqlite:flo.sqlite", "OFF")
    yield made
    made.close()


def insert(number: int, text: str = "") -> Callable[[sqlite3.Connection], int]:
    def work(connection: sqlite3.Connection) -> int:
        connection.execute("INSERT INTO t VALUES (?, ?)", (number, text))
        return number

    return work


def numbers(path: Path) -> list[int]:
    connection = sqlite3.connect(path)
    found = [row[0] for row in connection.execute("SELECT n FROM t ORDER BY n")]
    connection.close()
    return found


class Together:
    """Holds the writer back until all of some requests wait for it, so that one transaction takes them."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._threads: list[threading.Thread] = []
        self.ends: dict[int, object] = {}

    def run(self, works: list[Callable[[sqlite3.Connection], object]]) -> dict[int, object]:
        """What each gave, or raised, by its number."""
        begun, go_on = threading.Event(), threading.Event()

        def hold_back(connection: sqlite3.Connection) -> None:
            begun.set()
            go_on.wait()

        holder = threading.Thread(target=self._one, args=(-1, hold_back))
        holder.start()
        begun.wait()
        for number, work in enumerate(works):
            thread = threading.Thread(target=self._one, args=(number, work))
            self._threads.append(thread)
            thread.start()
            while len(self._writer._waiting) <= number:  # in this order
                threading.Event().wait(0.0005)
        go_on.set()
        for thread in (holder, *self._threads):
            thread.join()
        return self.ends

    def _one(self, number: int, work: Callable[[sqlite3.Connection], object]) -> None:
        try:
            self.ends[number] = self._writer.run(work)
        except BaseException as error:
            self.ends[number] = error


def test_a_write_is_committed_when_its_caller_goes_on(writer: Writer, path: Path) -> None:
    assert writer.run(insert(1)) == 1
    assert numbers(path) == [1]


def test_one_that_fails_takes_nothing_else_along(writer: Writer, path: Path) -> None:
    def fails(connection: sqlite3.Connection) -> None:
        insert(50)(connection)
        raise ValueError("no")

    ends = Together(writer).run([insert(1), fails, insert(1), insert(2)])
    assert (ends[0], str(ends[1]), ends[3]) == (1, "no", 2)
    assert isinstance(ends[2], StoreError)
    assert numbers(path) == [1, 2]


def test_writes_that_wait_share_a_transaction(writer: Writer, path: Path) -> None:
    seen: dict[int, list[int]] = {}

    def work(number: int) -> Callable[[sqlite3.Connection], None]:
        def insert_and_look(connection: sqlite3.Connection) -> None:
            insert(number)(connection)
            seen[number] = numbers(path)

        return insert_and_look

    Together(writer).run([work(1), work(2), work(3)])
    assert numbers(path) == [1, 2, 3]
    assert seen == {1: [], 2: [], 3: []}, "others see nothing before the commit"


def test_writes_whose_transaction_was_lost_are_done_again(writer: Writer, path: Path) -> None:
    def lose(connection: sqlite3.Connection) -> None:
        connection.execute("ROLLBACK")
        raise sqlite3.OperationalError("as when the disk fails")

    ends = Together(writer).run([insert(1), insert(2), lose, insert(3)])
    assert (ends[0], ends[1], ends[3]) == (1, 2, 3)
    assert isinstance(ends[2], StoreError)
    assert numbers(path) == [1, 2, 3]


def test_a_full_disk_stops_only_what_needs_space(writer: Writer, path: Path) -> None:
    writer.run(lambda connection: connection.execute("PRAGMA max_page_count = 20").fetchall())
    ends = Together(writer).run([insert(1), insert(2, "x" * 200_000), insert(3)])
    assert (ends[0], ends[2]) == (1, 3)
    assert isinstance(ends[1], StoreFull)
    assert numbers(path) == [1, 3]


def test_a_commit_that_fails_fails_for_all_it_holds(writer: Writer, path: Path) -> None:
    def breaks_the_commit(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE child (n REFERENCES t (n) DEFERRABLE INITIALLY DEFERRED)")
        connection.execute("INSERT INTO child VALUES (99)")

    writer.run(insert(0))
    connection_setting(writer, "foreign_keys = on")
    ends = Together(writer).run([insert(1), breaks_the_commit])
    assert isinstance(ends[0], StoreError)
    assert isinstance(ends[1], StoreError)
    assert numbers(path) == [0]
    assert writer.run(insert(2)) == 2


def connection_setting(writer: Writer, setting: str) -> None:
    """Change a setting that counts only outside a transaction."""

    def work(connection: sqlite3.Connection) -> None:
        connection.execute("COMMIT")
        connection.execute(f"PRAGMA {setting}")
        connection.execute("BEGIN IMMEDIATE")

    writer.run(work)


def test_a_write_inside_a_write_is_an_error_and_no_deadlock(writer: Writer, path: Path) -> None:
    with pytest.raises(RuntimeError, match="a write inside a write"):
        writer.run(lambda connection: writer.run(insert(1)))
    assert writer.run(insert(2)) == 2
    assert numbers(path) == [2]


def test_what_was_asked_for_before_the_end_is_done(path: Path) -> None:
    writer = Writer(path, "sqlite:flo.sqlite", "OFF")
    together = Together(writer)
    closer = threading.Thread(target=writer.close)

    def close_meanwhile(connection: sqlite3.Connection) -> None:
        closer.start()

    ends = together.run([close_meanwhile, insert(1)])
    closer.join()
    assert ends[1] == 1
    assert numbers(path) == [1]
    with pytest.raises(StoreUnavailable, match="is closed"):
        writer.run(insert(2))


def test_a_file_that_cannot_be_opened_is_told_and_tried_again(path: Path) -> None:
    hidden = path.with_name("hidden")
    writer = Writer(path / "nowhere", "sqlite:flo.sqlite", "OFF")
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        writer.run(insert(1))
    path.rename(hidden)
    path.mkdir()
    hidden.rename(path / "nowhere")
    assert writer.run(insert(1)) == 1
    writer.close()


def test_a_work_that_goes_on_after_its_transaction_was_undone_is_told_and_wrote_nothing(
    writer: Writer, path: Path
) -> None:
    """SQLite undoes everything itself where there is no space, for one, and a body may swallow what it was told."""

    def undone(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO t VALUES (1, '')")
        connection.execute("ROLLBACK")

    with pytest.raises(StoreError, match="undone"):
        writer.run(undone)
    assert writer.run(insert(2)) == 2
    assert numbers(path) == [2]
