"""Ended executions go, with all that was kept of them, a bounded number of rows in each transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import Final

from flo.engine.errors import StoreError
from flo.engine.jobs import Retention
from flo.engine.stores.database import Database, Execute
from flo.engine.stores.sql_lists import listed, one_of
from flo.engine.stores.sql_plans import by_index, read_by_index
from flo.engine.stores.sqlite_database import SqliteDatabase
from flo.engine.stores.sqlite_space import give_back

GOING: Final = "going"
"""In the place of the token: some records of an ended execution are removed already, so that it cannot be resumed."""

_ROWS: Final = 1_000
"""So many records are removed in one transaction."""

_TOGETHER: Final = 100
"""Records of so many executions."""

_RECORDS: Final = (
    ("execution_steps", "seq"),
    ("execution_lines", "execution_id, number"),
    ("execution_attempts", "execution_id, fence"),
    ("execution_effects", "execution_id, path, name, number"),
    ("execution_waits", "seq"),
    ("execution_signals", "seq"),
)
"""The tables with records of executions, and their keys."""

_ENDED: Final = "e.finished_at IS NOT NULL"

# what is above it may yet ask how it ended
_ENDED_WITH_ALL_ABOVE: Final = f"""
{_ENDED} AND (e.parent_id IS NULL OR NOT EXISTS (
    WITH RECURSIVE above (parent_id, finished_at) AS (
        SELECT p.parent_id, p.finished_at FROM executions p WHERE p.id = e.parent_id
        UNION ALL
        SELECT p.parent_id, p.finished_at FROM above a JOIN executions p ON p.id = a.parent_id
    )
    SELECT 1 FROM above WHERE finished_at IS NULL
))
"""

_TO_PRUNE: Final = """
SELECT e.id FROM executions e WHERE (e.finished_at, e.id) <= (:at, :last) AND {counted} AND {going}
ORDER BY e.finished_at, e.id LIMIT :limit
"""
_BEYOND: Final = """
SELECT e.finished_at, e.id FROM executions e WHERE {counted} AND e.finished_at IS NOT NULL
ORDER BY e.finished_at DESC, e.id DESC LIMIT 1 OFFSET :count
"""

_DEAD: Final = """
SELECT e.id FROM executions e WHERE e.id IN (SELECT id FROM executions WHERE dead_reason IS NOT NULL) AND {asked}
ORDER BY e.finished_at, e.id LIMIT :limit
"""
_PARTS: Final = """
WITH RECURSIVE parts (id) AS (
    SELECT e.id FROM executions e WHERE e.parent_id {ids} AND e.queue = ''
    UNION ALL
    SELECT e.id FROM parts p CROSS JOIN executions e WHERE e.parent_id = p.id AND e.queue = ''
)
SELECT id FROM parts
"""

_STILL: Final = "SELECT e.id FROM executions e WHERE e.id {ids} AND {still}"
_SKIP_LOCKED: Final = {"sqlite": "", "postgresql": " FOR UPDATE OF e SKIP LOCKED"}
_MARK: Final = (
    f"UPDATE executions SET lease_token = '{GOING}', parent_path = NULL WHERE id {{ids}} AND finished_at IS NOT NULL"
)
_REMOVE: Final = "DELETE FROM executions WHERE id {ids}"
_REMOVE_RECORDS: Final = {
    "sqlite": "DELETE FROM {table} WHERE ({key}) IN"
    " (SELECT {key} FROM {table} WHERE execution_id {ids} LIMIT :left) RETURNING 1",
    # by their place: no plan of it reads the whole table
    "postgresql": "DELETE FROM {table} WHERE ctid = ANY (ARRAY"
    " (SELECT ctid FROM {table} WHERE execution_id {ids} LIMIT :left)) RETURNING 1",
}


def prune(database: Database, retention: Retention, workflow: str | None, apart: Sequence[str], limit: int) -> int:
    """As ``ExecutionStore.prune``."""
    counted, values = _ENDED, dict[str, object]()
    if workflow is not None:
        counted, values = "e.workflow = :workflow", {"workflow": workflow}
    elif apart:
        counted = f"(e.workflow IS NULL OR NOT e.workflow {one_of(database.dialect, 'apart')})"
        values = {"apart": listed(database.dialect, apart)}
    bound = _bound(database, retention, counted, values)
    if bound is None:
        return 0
    sql = _TO_PRUNE.format(counted=counted, going=_ENDED_WITH_ALL_ABOVE)
    rows = database.read(sql, {**values, "at": bound[0], "last": bound[1], "limit": limit})
    return _remove(database, [row[0] for row in rows], _ENDED_WITH_ALL_ABOVE)


def purge_dead(database: Database, queue: str | None, before: datetime | None, limit: int) -> int:
    """As ``ExecutionStore.purge_dead``."""
    asked, values = [_ENDED], dict[str, object]()
    if queue is not None:
        asked.append("e.queue = :queue")
        values["queue"] = queue
    if before is not None:
        asked.append("e.finished_at < :before")
        values["before"] = before
    sql = _DEAD.format(asked=" AND ".join(asked))
    dead = [row[0] for row in read_by_index(database, sql, {**values, "limit": limit})]
    ids, values = one_of(database.dialect, "ids"), {"ids": listed(database.dialect, dead)}
    if parts := [row[0] for row in read_by_index(database, _PARTS.format(ids=ids), values)]:
        # they go first, for they would not be found again; until then nobody resumes what they belong to
        database.write(lambda execute: execute(_MARK.format(ids=ids), values))
        _remove(database, parts, _ENDED)
    return _remove(database, dead, _ENDED)


def _bound(
    database: Database, retention: Retention, counted: str, values: dict[str, object]
) -> tuple[datetime, str] | None:
    """The end and the id of the last one that is to go, in the order of ends; None where all stay."""
    bounds: list[tuple[datetime, str]] = []
    if retention.age is not None:
        bounds.append((database.now() - retention.age, ""))
    if retention.count is not None:
        rows = database.read(_BEYOND.format(counted=counted), {**values, "count": retention.count})
        bounds += [(database.instant(at), last) for at, last in rows]
    return max(bounds, default=None)


def _remove(database: Database, ids: Sequence[str], still: str) -> int:
    """Remove executions of which ``still`` holds, with their records; gives how many."""
    removed = 0
    for batch in _batches(ids):
        done = False
        while not done:
            count, done = _remove_some(database, batch, still)
            removed += count
    if removed and isinstance(database, SqliteDatabase):
        with suppress(StoreError):  # what was asked for is done
            give_back(database)
    return removed


def _remove_some(database: Database, batch: Sequence[str], still: str) -> tuple[int, bool]:
    """One transaction. Gives how many executions are gone, and whether that were all that are to be had."""
    dialect = database.dialect
    ids = one_of(dialect, "ids")

    def work(execute: Execute) -> tuple[int, bool]:
        by_index(execute, dialect)
        sql = _STILL.format(ids=ids, still=still) + _SKIP_LOCKED[dialect]
        held = [row[0] for row in execute(sql, {"ids": listed(dialect, batch)})]
        if not held:
            return 0, True
        values = {"ids": listed(dialect, held)}
        left = _ROWS
        for table, key in _RECORDS:
            sql = _REMOVE_RECORDS[dialect].format(table=table, key=key, ids=ids)
            left -= len(execute(sql, {**values, "left": left}))
            if left == 0:
                execute(_MARK.format(ids=ids), values)
                return 0, False
        execute(_REMOVE.format(ids=ids), values)
        return len(held), True

    return database.write(work)


def _batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    rest = iter(ids)
    while batch := list(islice(rest, _TOGETHER)):
        yield batch
