"""What a request becomes when it comes in, the same in every store."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from flo.engine.errors import InputInvalid
from flo.engine.executions import Execution, ExecutionState
from flo.engine.jobs import MAX_BATCH, Request


def check_batch(requests: Sequence[Request]) -> None:
    """Raise ``InputInvalid`` where too many come together."""
    if len(requests) > MAX_BATCH:
        raise InputInvalid(
            "enqueue", f"{len(requests):,} requests came, at most {MAX_BATCH:,} go together; make several calls"
        )


def new_execution(request: Request, now: datetime, parent_depth: int) -> Execution:
    """What a request asks for, ``pending`` from its time on; its own root. ``parent_depth`` is that of its parent,
    which it need not have."""
    run_at = now + request.delay if request.delay is not None else request.run_at or now
    return Execution(
        id=request.id,
        workflow=request.workflow,
        version=request.version,
        digest=request.digest,
        definition=request.definition,
        input=request.input,
        state=ExecutionState.PENDING,
        created_at=now,
        trigger=request.trigger,
        trigger_id=request.trigger_id,
        handler=request.handler,
        queue=request.queue or None,
        priority=request.priority,
        run_at=run_at,
        due_at=run_at,
        deadline=request.deadline,
        key=request.key,
        concurrency_key=request.concurrency_key,
        concurrency_limit=request.concurrency_limit,
        parent_id=request.parent_id,
        parent_path=request.parent_path,
        root_id=request.id,
        depth=(request.led_by if request.parent_id is None else parent_depth) + 1,
        replay_of=request.replay_of,
        environment=request.environment,
        environment_chosen=request.environment_chosen,
    )


def rejected(execution: Execution, now: datetime) -> Execution:
    """The same execution, turned away since its concurrency key is full."""
    return replace(execution, state=ExecutionState.REJECTED, due_at=None, finished_at=now)


def new_token() -> str:
    """The secret of one claim."""
    return secrets.token_hex(16)
