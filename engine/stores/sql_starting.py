"""Executions that run from the moment they are stored, in SQL that both dialects accept: a run, a part of one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from flo.engine.executions import Execution, ExecutionState, changed
from flo.engine.faults import reach
from flo.engine.jobs import Delivery, Hold, Request
from flo.engine.stores.arrivals import new_token, rejected
from flo.engine.stores.database import Database, Execute, Values
from flo.engine.stores.sql_enqueue import check_identity, define, depths, known_by_key, limit, lock_keys, new_execution
from flo.engine.stores.sql_holds import clock
from flo.engine.stores.sql_rows import (
    EXECUTION,
    FROM_EXECUTIONS,
    INSERT_EXECUTION,
    execution_of,
    execution_values,
    json_text,
)

_RUNNING: Final = """
SELECT count(*) FROM executions
WHERE concurrency_key = :key AND finished_at IS NULL AND state = 'running' AND due_at > :now
"""
_INSERT_NOW: Final = re.sub(
    ":(created_at|run_at|started_at|claimed_at)", ":now", INSERT_EXECUTION.replace(":due_at", ":now + :lease::interval")
)
"""PostgreSQL's, for what begins by its clock, which nobody has to ask for before."""

_SOMETIME: Final = datetime.min.replace(tzinfo=UTC)
"""Stands for an instant that is not known yet."""


def start(database: Database, request: Request, worker: str, lease: timedelta) -> Delivery | Execution | None:
    """As ``QueueStore.start``."""
    if database.dialect == "postgresql" and request.key is request.concurrency_key is request.parent_id is None:
        started: Delivery | Execution | None = _start_at_once(database, request, worker, lease)
    else:
        started = database.write(lambda execute: _start(database, execute, request, worker, lease))
    reach("start.committed")
    return started


def insert_held(
    execute: Execute, execution: Execution, request: Request, worker: str, now: datetime, lease: timedelta
) -> Delivery:
    """Store the execution of a request, which runs from the beginning."""
    running, token = _running(execution, worker, now, lease), new_token()
    execute.later(INSERT_EXECUTION, _values(running, request, token))
    return Delivery(running, Hold(running.id, token, 1, worker))


def _start_at_once(database: Database, request: Request, worker: str, lease: timedelta) -> Delivery:
    """Start what has nothing to be asked for first: in one trip to the server."""
    running, token = _running(_execution(request, _SOMETIME, {}), worker, _SOMETIME, lease), new_token()
    values = {**_values(running, request, token), "lease": lease}

    def work(execute: Execute) -> list[tuple[Any, ...]]:
        created: list[tuple[Any, ...]] = []
        define(execute, request.digest, request.definition)
        execute.later(f"{_INSERT_NOW} RETURNING created_at", values, created.extend)
        return created

    [(now,)] = database.write(work)
    return Delivery(_running(running, worker, database.instant(now), lease), Hold(running.id, token, 1, worker))


def _start(
    database: Database, execute: Execute, request: Request, worker: str, lease: timedelta
) -> Delivery | Execution | None:
    define(execute, request.digest, request.definition)
    if request.concurrency_key is not None:
        lock_keys(execute, database)
    if request.key is not None and (found := known_by_key(execute, database, [request]).get(request.key)):
        check_identity(request, found)
        (row,) = execute(f"SELECT {EXECUTION} {FROM_EXECUTIONS} WHERE e.id = :id", {"id": found[0]})
        return execution_of(database, row)
    now = clock(database, execute)
    execution = _execution(request, now, depths(execute, database, [request]))
    full = _is_full(execute, request)
    if full and request.when_full == "queue":
        return None
    if full:
        execution = rejected(execution, now)
        execute(INSERT_EXECUTION, _values(execution, request))
        return execution
    return insert_held(execute, execution, request, worker, now, lease)


def _execution(request: Request, now: datetime, depths: Mapping[str, int]) -> Execution:
    return changed(new_execution(request, now, depths), queue=None)


def _values(execution: Execution, request: Request, token: str | None = None) -> Values:
    text = json_text(execution.input, request.input_text)
    return execution_values(execution, token=token, identity=request.identity, input_text=text)


def _is_full(execute: Execute, request: Request) -> bool:
    if request.concurrency_key is None:
        return False
    return int(execute(_RUNNING, {"key": request.concurrency_key})[0][0]) >= limit(request)


def _running(execution: Execution, worker: str, now: datetime, lease: timedelta) -> Execution:
    """An execution that is created, and claimed for the first time, at one moment."""
    until = now + lease
    return changed(
        execution,
        state=ExecutionState.RUNNING,
        created_at=now,
        run_at=now,
        due_at=until,
        lease_until=until,
        started_at=now,
        claimed_at=now,
        worker=worker,
        fence=1,
        deliveries=1,
    )
