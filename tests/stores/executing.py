"""Executions, steps and log lines with something in every field."""

from __future__ import annotations

import dataclasses
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

from flo.engine.executions import Execution, ExecutionState, LogLine, StepRecord, StepState
from flo.engine.values import new_id

DOCUMENT = '{"steps": [], "pi": 3.140}'
DIGEST = hashlib.sha256(DOCUMENT.encode()).hexdigest()
MOMENT = datetime(2026, 1, 1, 10, 0, 0, 123456, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def execution(**changes: Any) -> Execution:
    """An execution with all that a store adds to it by itself."""
    identity = changes.get("id", new_id())
    made = Execution(
        id=identity,
        workflow="greet",
        version=3,
        digest=DIGEST,
        definition=DOCUMENT,
        input={"name": "Ada", "big": 2**70, "whole": 1.0},
        state=ExecutionState.REJECTED,
        created_at=MOMENT,
        run_at=MOMENT,
        finished_at=MOMENT,
        root_id=identity,
    )
    return dataclasses.replace(made, **changes)


def record(execution_id: str, path: str, **changes: object) -> StepRecord:
    made = StepRecord(
        execution_id=execution_id,
        path=path,
        step_id=path.rsplit(".", 1)[-1],
        step_type="core.log",
        state=StepState.SUCCESS,
        started_at=MOMENT,
        duration_ms=1.25,
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def iteration(execution_id: str, index: int) -> StepRecord:
    return record(execution_id, f"each[{index}]", loop="each", index=index, output={"n": index})


def line(execution_id: str, number: int, message: str = "hello", **changes: Any) -> LogLine:
    made = LogLine(execution_id, MOMENT, "info", message, "greet", {"n": 1}, number)
    return dataclasses.replace(made, **changes)
