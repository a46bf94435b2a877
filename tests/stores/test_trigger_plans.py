"""The plans of triggers: what a scheduler asks over and over reads no whole table, however much lies before it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from flo.engine.stores import sql_firing
from flo.engine.stores.postgres import PostgresStore
from flo.engine.stores.postgres_connections import Address, Connection
from flo.engine.stores.sql_endings import left_statement
from flo.engine.stores.sql_lists import listed
from flo.engine.stores.sql_triggers import due_statements
from flo.engine.stores.sqlite import SqliteStore
from flo.testing import FrozenClock

from .jobs import DIGEST, MINUTE, START
from .test_queue_plans import _NUMBERS, postgres_plan, sqlite_plan

TRIGGERS, FIRINGS = 2_000, 10_000
"""Of each kind, as many executions as firings; each workflow has one trigger of each kind. One in a hundred is due, or
unfinished."""

UNORDERED = "the ends of nobody"
OF_FEW = "who waits for an end"

_WORKFLOWS = "INSERT INTO workflows (id, name, created_at) {numbers} SELECT 'w' || n, 'w' || n, :at FROM numbers"
_TRIGGERS = """
INSERT INTO triggers (id, workflow_id, name, kind, config, timing, enabled, anchor, cursor, look_at, awaits, states,
                      created_at, updated_at)
{numbers}
SELECT '{kind}-' || n, 'w' || n, '{kind}', '{kind}', '{{}}', '', {true}, :at, :at,
       CASE WHEN '{kind}' = 'schedule' THEN CASE WHEN n % 100 = 0 THEN :at ELSE :later END END,
       'w' || n, ',failed,', :at, :at FROM numbers
"""
_FIRINGS = """
INSERT INTO firings (trigger_id, slot, outcome, at, subject, state)
{numbers}
SELECT '{kind}-' || (n % 40), n || ':1', CASE WHEN n % 100 = 0 THEN 'due' ELSE 'fired' END, :at, n, 'failed'
FROM numbers
"""
_EXECUTIONS = """
INSERT INTO executions (id, digest, input, state, queue, priority, run_at, created_at, finished_at, root_id, workflow,
                        trigger_id)
{numbers}
SELECT 'e' || n, :digest, '{{}}', 'failed', 'default', 0, :at, :at, CASE WHEN n % 100 <> 0 THEN :at END, 'e' || n,
       'w' || (n % 2000), 'schedule-' || (n % 40) FROM numbers
"""

Asked = tuple[str, str, Mapping[str, object], Sequence[str]]
"""What is asked for, the statement, its values, and the indexes that have it."""


def fill(store: SqliteStore | PostgresStore) -> None:
    dialect = store._database.dialect
    values = {"at": START, "later": START + MINUTE, "digest": DIGEST}
    filled = [(_WORKFLOWS, "", TRIGGERS), (_EXECUTIONS, "", FIRINGS)]
    for kind in ("schedule", "event"):
        filled += [(_TRIGGERS, kind, TRIGGERS), (_FIRINGS, kind, FIRINGS)]
    for sql, kind, count in filled:
        text = sql.format(numbers=_NUMBERS[dialect], kind=kind, true="1" if dialect == "sqlite" else "true")
        given = {name: value for name, value in values.items() if f":{name}" in text}
        store._database.write(lambda execute, text=text, given={**given, "count": count}: execute(text, given))  # type: ignore[misc]


def asked(dialect: str) -> Iterator[Asked]:
    for apart in (False, True):
        left_out = {"apart": listed(dialect, ["schedule-1", "event-1"])} if apart else {}
        outlook, due, ends, following = due_statements(dialect, apart=apart)
        yield "the outlook", outlook, left_out, ["triggers_to_look_at", "firings_due"]
        yield "the schedules that are due", due, {**left_out, "at": START, "limit": 101}, ["triggers_to_look_at"]
        yield "the ends that are due", ends, {**left_out, "limit": 101}, ["firings_due"]
        yield "the next schedule", following, {**left_out, "at": START}, ["triggers_to_look_at"]
    ends_of = {"ids": '["e1", "e2"]', "queues": listed(dialect, ["default"])}
    yield OF_FEW, left_statement(dialect), ends_of, ["triggers_by_awaited"]
    yield "an overlap", sql_firing._UNFINISHED, {"trigger_id": "schedule-1"}, ["executions_of_trigger"]
    old, forgotten = sql_firing._TO_PRUNE
    yield "old firings", old, {"before": START, "limit": 1000}, ["firings_by_time"]
    of_trigger = {"id": "schedule-1", "seq": 400, "limit": 1000}
    yield "firings beyond a number", sql_firing._TO_PRUNE_OF, of_trigger, ["firings_of_trigger"]
    yield UNORDERED, forgotten, {"limit": 1000}, ["firings_due"]
    yield "the first beyond a number", sql_firing._BEYOND, {"keep": 100, "after": "a"}, ["firings_of_trigger"]


@pytest.fixture
def sqlite(tmp_path: Path, clock: FrozenClock) -> Iterator[SqliteStore]:
    store = SqliteStore.open(tmp_path / "flo.sqlite", clock, synchronous="OFF")
    store.migrate()
    fill(store)
    yield store
    store.close()


@pytest.fixture
def connection(postgres_url: str) -> Iterator[Connection]:
    """A session as the store has them, in a database that is filled."""
    store = PostgresStore.open(postgres_url)
    fill(store)
    store.close()
    with Address(postgres_url).connect() as connection:
        connection.execute(b"ANALYZE")
        yield connection


def test_nothing_that_triggers_ask_reads_a_whole_table_of_sqlite(sqlite: SqliteStore) -> None:
    # an index of what is due alone is read from its beginning
    whole = re.compile(r"^SCAN (?!CONSTANT|json_each|s$|f USING INDEX firings_due)", re.MULTILINE)
    for when in ("", "ANALYZE"):
        if when:
            sqlite._database.write(lambda execute, when=when: execute(when))  # type: ignore[misc]
        for what, sql, values, indexes in asked("sqlite"):
            shown = sqlite_plan(sqlite, sql, values)
            assert not whole.search(shown), f"{what}:\n{shown}"
            assert all(f" {index}" in shown for index in indexes), f"{what}:\n{shown}"
            assert "TEMP B-TREE FOR ORDER" not in shown, f"{what}:\n{shown}"


def test_nothing_that_triggers_ask_reads_a_whole_table_of_postgresql(connection: Connection) -> None:
    for mode in ("custom", "generic"):
        for what, sql, values, indexes in asked("postgresql"):
            shown = postgres_plan(connection, sql, values, mode)
            assert "Seq Scan" not in shown, f"{what}:\n{shown}"
            assert all(f" {index} on" in shown for index in indexes), f"{what}:\n{shown}"
            # what comes from an index is at most put in order by the ids of those of one moment
            assert not re.search(r"(?<!Incremental )Sort +\(", shown) or what in (UNORDERED, OF_FEW), (
                f"{what}:\n{shown}"
            )
