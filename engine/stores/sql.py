"""Executions as people look at them and act on them, in SQL that both dialects accept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from typing import Final

from flo.engine.executions import Execution, ExecutionState, LogLine, StepRecord, StepState
from flo.engine.jobs import Attempt, Enqueued, Request, Retention, Wait
from flo.engine.stores import sql_acting, sql_retention
from flo.engine.stores.database import Database, Execute
from flo.engine.stores.sql_plans import read_by_index
from flo.engine.stores.sql_rows import (
    DEFINE,
    EXECUTION,
    FROM_EXECUTIONS,
    INSERT_EXECUTION,
    LINE,
    STEP,
    WAIT,
    execution_of,
    execution_values,
    line_of,
    read_json,
    step_of,
    wait_of,
)
from flo.engine.values import JsonObject

_AFTER_EVERY_TEXT: Final = "\U0010ffff"

_FRAME: Final = """
WITH RECURSIVE frame (path) AS (
    SELECT (SELECT path FROM execution_steps WHERE execution_id = :id AND path > :prefix AND path < :end
            ORDER BY path LIMIT 1)
    UNION ALL
    SELECT (SELECT s.path FROM execution_steps s WHERE s.execution_id = :id AND s.path < :end AND s.path >
                CASE WHEN {position}(substr(f.path, :start), '[') = 0 THEN f.path
                     ELSE substr(f.path, 1, :start + {position}(substr(f.path, :start), '[') - 1) || :after END
            ORDER BY s.path LIMIT 1)
    FROM frame f WHERE f.path IS NOT NULL
)
SELECT s.path FROM frame s WHERE s.path IS NOT NULL AND {position}(substr(s.path, :start), '[') = 0
"""
"""The paths of one frame, by the index alone: from each to the next, past all that lies in a loop in one step."""

_POSITION: Final = {"sqlite": "instr", "postgresql": "strpos"}

_BEGUN: Final = """
SELECT DISTINCT {index} FROM execution_steps
WHERE execution_id = :id AND path > :prefix AND path < :end AND substr(path, :start) LIKE '%].%'
"""
_INDEX: Final = {
    "sqlite": "CAST(substr(path, :start) AS INTEGER)",  # reads the digits that it begins with
    "postgresql": "split_part(substr(path, :start), ']', 1)::bigint",
}


class SqlExecutions:
    """The ``ExecutionStore`` of both SQL adapters."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, execution: Execution) -> None:
        values = execution_values(execution)

        def work(execute: Execute) -> None:
            execute(DEFINE, {"digest": execution.digest, "document": execution.definition})
            execute(INSERT_EXECUTION, values)

        self._database.write(work)

    def get(self, execution_id: str) -> Execution | None:
        if not execution_id:
            return None
        rows = self._database.read(
            f"SELECT {EXECUTION} {FROM_EXECUTIONS} WHERE e.id >= :id AND e.id <= :end ORDER BY e.id LIMIT 2",
            {"id": execution_id, "end": execution_id + _AFTER_EVERY_TEXT},
        )
        if len(rows) == 1 or (rows and rows[0][0] == execution_id):
            return execution_of(self._database, rows[0])
        return None

    def list(
        self,
        *,
        state: ExecutionState | None = None,
        workflow: str | None = None,
        queue: str | None = None,
        parent: str | None = None,
        dead: bool = False,
        limit: int = 50,
    ) -> Sequence[Execution]:
        values: dict[str, object] = {"limit": limit}
        tests = []
        given = {
            "state": None if state is None else state.value,
            "workflow": workflow,
            "queue": queue,
            "parent_id": parent,
        }
        for column, wanted in given.items():
            if wanted is not None:
                tests.append(f"e.{column} = :{column}")
                values[column] = wanted
        if parent is None and queue is None and not dead:
            tests.append("e.parent_id IS NULL")
        if dead:  # few among many: an index has them, which a walk from the newest would not find soon
            tests.append("e.id IN (SELECT id FROM executions WHERE dead_reason IS NOT NULL AND replayed_as IS NULL)")
        if dead or state is not None or workflow is not None or parent is not None:
            sql = (
                f"SELECT {EXECUTION} {FROM_EXECUTIONS} WHERE {' AND '.join(tests)}"
                " ORDER BY e.created_at DESC, e.id DESC LIMIT :limit"
            )
        else:
            sql = newest_statement(tests, limit)
        rows = read_by_index(self._database, sql, values) if dead else self._database.read(sql, values)
        return [execution_of(self._database, row) for row in rows]

    def steps(self, execution_id: str) -> Sequence[StepRecord]:
        return self._steps("ORDER BY seq", {"id": execution_id})

    def iterations(self, execution_id: str, loop: str, *, start: int, limit: int) -> Sequence[StepRecord]:
        return self._steps(
            "AND loop_path = :loop AND loop_index >= :start AND loop_index < :end ORDER BY loop_index",
            {"id": execution_id, "loop": loop, "start": start, "end": start + limit},
        )

    def lines(self, execution_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[LogLine]:
        rows = self._database.read(
            f"SELECT {LINE} FROM execution_lines WHERE execution_id = :id AND number > :after"
            " ORDER BY number LIMIT :limit",
            {"id": execution_id, "after": after, "limit": limit},
        )
        return [line_of(self._database, row) for row in rows]

    def attempts(self, execution_id: str) -> Sequence[Attempt]:
        rows = self._database.read(
            "SELECT fence, worker, claimed_at, ended_at, outcome, error FROM execution_attempts"
            " WHERE execution_id = :id ORDER BY fence",
            {"id": execution_id},
        )
        instant = self._database.instant
        return [
            Attempt(
                row[0], row[1], None if row[2] is None else instant(row[2]), instant(row[3]), row[4], read_json(row[5])
            )
            for row in rows
        ]

    def waits(self, execution_id: str) -> Sequence[Wait]:
        rows = self._database.read(
            f"SELECT {WAIT} FROM execution_waits WHERE execution_id = :id ORDER BY seq", {"id": execution_id}
        )
        return [wait_of(self._database, row) for row in rows]

    def checkpoints(self, execution_id: str, prefix: str) -> Sequence[StepRecord]:
        frame = _FRAME.format(position=_POSITION[self._database.dialect])
        values = {**_within(execution_id, prefix), "start": len(prefix) + 1, "after": _AFTER_EVERY_TEXT}
        # an expression: SQLite would rather read all records in their order than the few and sort them
        return self._steps(f"AND path IN ({frame}) AND loop_path IS NULL ORDER BY seq + 0", values)

    def iteration_states(self, execution_id: str, loop: str) -> Mapping[int, StepState]:
        rows = self._database.read(
            "SELECT loop_index, state FROM execution_steps WHERE execution_id = :id AND loop_path = :loop",
            {"id": execution_id, "loop": loop},
        )
        return {index: StepState(state) for index, state in rows}

    def begun(self, execution_id: str, loop: str) -> Set[int]:
        prefix = f"{loop}["
        sql = _BEGUN.format(index=_INDEX[self._database.dialect])
        rows = self._database.read(sql, {**_within(execution_id, prefix), "start": len(prefix) + 1})
        return {index for (index,) in rows}

    def failures(self, execution_id: str, *, limit: int = 1000) -> Sequence[StepRecord]:
        return self._steps(
            "AND state = :failed AND loop_path IS NULL ORDER BY seq LIMIT :limit",
            {"id": execution_id, "failed": StepState.FAILED.value, "limit": limit},
        )

    def cancel(self, execution_id: str) -> Sequence[str]:
        return sql_acting.cancel(self._database, execution_id)

    def resume(self, execution_id: str) -> Execution:
        return sql_acting.resume(self._database, execution_id)

    def signal(self, execution_id: str, name: str, payload: JsonObject) -> None:
        sql_acting.signal(self._database, execution_id, name, payload)

    def decide(self, execution_id: str, path: str, decision: JsonObject) -> None:
        sql_acting.decide(self._database, execution_id, path, decision)

    def replay_dead(self, execution_id: str, request: Request) -> Enqueued:
        return sql_acting.replay_dead(self._database, execution_id, request)

    def purge_dead(self, *, queue: str | None = None, before: datetime | None = None, limit: int = 1000) -> int:
        return sql_retention.purge_dead(self._database, queue, before, limit)

    def prune(
        self, retention: Retention, *, workflow: str | None = None, apart: Sequence[str] = (), limit: int = 100
    ) -> int:
        return sql_retention.prune(self._database, retention, workflow, apart, limit)

    def _steps(self, rest: str, values: Mapping[str, object]) -> Sequence[StepRecord]:
        rows = self._database.read(f"SELECT {STEP} FROM execution_steps WHERE execution_id = :id {rest}", values)
        return [step_of(self._database, row) for row in rows]


def newest_statement(tests: Sequence[str], limit: int) -> str:
    """The query for the newest of all executions of which ``tests`` hold.

    They are among the newest of each state: an index by creation alone would cost each execution another entry, when it
    is enqueued and whenever it changes. The limit is written out, so that the plan knows how few rows are to be joined.
    """
    where, last = " AND ".join(tests), f"ORDER BY e.created_at DESC, e.id DESC LIMIT {limit:d}"
    newest = " UNION ALL ".join(
        f"SELECT * FROM (SELECT e.created_at, e.id FROM executions e WHERE e.state = '{state}' AND {where} {last}) AS n"
        for state in ExecutionState
    )
    return (
        f"SELECT {EXECUTION} FROM (SELECT e.id FROM ({newest}) AS e {last}) AS n JOIN executions e ON e.id = n.id"
        " JOIN definitions d ON d.digest = e.digest ORDER BY e.created_at DESC, e.id DESC"
    )


def _within(execution_id: str, prefix: str) -> dict[str, object]:
    """What the paths that begin with ``prefix`` lie between."""
    return {"id": execution_id, "prefix": prefix, "end": prefix + _AFTER_EVERY_TEXT}
