"""New executions of queues, in SQL: what their requests say, and many of them in few statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

from msgspec import Raw

from flo.engine.executions import ExecutionState
from flo.engine.jobs import Request
from flo.engine.stores.database import Execute
from flo.engine.stores.sql_lists import recordsets
from flo.engine.stores.sql_rows import NO_QUEUE, json_text

TYPES: Final = {
    "id": "text",
    "workflow": "text",
    "version": "integer",
    "digest": "text",
    "handler": "text",
    "queue": "text",
    "priority": "integer",
    "deadline": "timestamptz",
    "idempotency_key": "text",
    "request_identity": "text",
    "concurrency_key": "text",
    "concurrency_limit": "integer",
    "trigger_kind": "text",
    "trigger_id": "text",
    "parent_id": "text",
    "parent_path": "text",
    "replay_of": "text",
    "environment": "text",
    "environment_chosen": "boolean",
}
"""The columns that hold what a request says."""

_NAMES: Final = {"idempotency_key": "key", "request_identity": "identity", "trigger_kind": "trigger"}
"""Those among them that are named otherwise in ``Request``."""

said = attrgetter(*(_NAMES.get(column, column) for column in TYPES))

_MORE: Final = {
    "input": "{input}",
    "depth": "{depth}",
    "state": "{state}",
    "run_at": "coalesce({run_at}, :now)",
    "due_at": "CASE {state} WHEN 'pending' THEN coalesce({run_at}, :now) END",
    "finished_at": "CASE {state} WHEN 'pending' THEN NULL ELSE :now END",
    "created_at": ":now",
    "root_id": "{id}",
}
_MORE_TYPES: Final = {"input": "json", "depth": "integer", "state": "text", "run_at": "timestamptz"}
_ONCE: Final = "ON CONFLICT (tenant, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING"

INSERT: Final = f"""
INSERT INTO executions ({", ".join([*TYPES, *_MORE])})
SELECT {", ".join([f"r.{column}" for column in TYPES])},
    {", ".join(_MORE.values()).replace("{", "r.").replace("}", "")}
FROM json_to_recordset(:rows::json) AS r (
    {", ".join(f"{column} {kind}" for column, kind in {**TYPES, **_MORE_TYPES}.items())}
)
ORDER BY r.idempotency_key {_ONCE}
"""
"""Stores all ``rows``; in the order of their keys, so that two batches do not wait for each other."""


Row = Mapping[str, Any]
"""What is said of a new execution, by column."""


def row_of(
    request: Request, depth: int = 0, run_at: datetime | None = None, state: ExecutionState = ExecutionState.PENDING
) -> Row:
    """The row of a request. ``depth`` is that of its parent, ``run_at`` stands for a delay."""
    row = {column: value for column, value in zip(TYPES, said(request), strict=True) if value is not None}
    row["queue"] = request.queue or NO_QUEUE
    row["input"] = json_text(request.input, request.input_text)
    row["depth"] = (request.led_by if request.parent_id is None else depth) + 1
    row["state"] = state.value
    row["run_at"] = run_at or request.run_at
    return row


def insert(execute: Execute, dialect: str, rows: Sequence[Row]) -> None:
    """Store new executions, but those whose idempotency key is there already."""
    if dialect == "postgresql":
        for text in as_json(rows):
            execute.later(INSERT, {"rows": text})
        return
    alike: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        alike.setdefault(tuple(row), []).append(row)
    for columns, held in alike.items():
        execute.many(_insert_one(columns), held)


def as_json(rows: Sequence[Row]) -> Iterator[str]:
    """The values of ``INSERT`` for rows: one text, or several where they are large."""
    return recordsets({**row, "input": Raw(row["input"])} for row in rows)


@lru_cache(maxsize=64)
def _insert_one(columns: tuple[str, ...]) -> str:
    """The statement that stores a row of ``columns``; the others have their defaults."""
    plain = [column for column in columns if column in TYPES]
    values = ", ".join([f":{column}" for column in plain] + list(_MORE.values())).replace("{", ":").replace("}", "")
    return f"INSERT INTO executions ({', '.join([*plain, *_MORE])}) VALUES ({values}) {_ONCE}"
