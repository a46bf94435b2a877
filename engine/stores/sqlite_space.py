"""How SQLite's files become small again: free pages are given back bit by bit, and the log is emptied."""

from __future__ import annotations

from typing import Final

from flo.engine.stores.database import Database, Execute
from flo.engine.stores.sqlite_database import SqliteDatabase
from flo.engine.stores.sqlite_files import BUSY_SECONDS

_FREED_PAGES: Final = 1000
"""So many free pages are kept for what comes next, and so many more are given back to the disk at once."""


def give_some_back(database: Database) -> bool:
    """Shrink the file by some of its free pages, where it has many, in a transaction of its own; says whether there
    may be more."""
    if database.read("PRAGMA freelist_count")[0][0] <= 2 * _FREED_PAGES:
        return False

    def work(execute: Execute) -> None:
        for _ in range(_FREED_PAGES):  # Python takes one step of this statement, which is one page
            execute("PRAGMA incremental_vacuum(1)")

    database.write(work)
    return True


def give_back(database: SqliteDatabase) -> None:
    """Shrink the file until it has few free pages, and the log as far as nobody reads in it.

    A checkpoint is no change, so a connection that only reads can do it. One that waited for others would keep all
    writers waiting with it: this one takes what it gets.
    """
    for _ in range(database.read("PRAGMA freelist_count")[0][0] // _FREED_PAGES):
        if not give_some_back(database):
            break
    with database.reading() as execute:
        execute("PRAGMA busy_timeout = 0")
        try:
            for kind in ("PASSIVE", "TRUNCATE"):  # the first does most of the work without the writers' lock
                execute(f"PRAGMA wal_checkpoint({kind})")
        finally:
            execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")
