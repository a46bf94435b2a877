"""Takes over what an earlier delivery of an execution did: a step that ended does not run again."""

from __future__ import annotations

import re
from typing import Final, Protocol

from flo.engine.attempt import End
from flo.engine.executions import StepRecord, StepState
from flo.engine.history import History, is_final
from flo.engine.language.workflow import Step
from flo.engine.outputs import LOOP_ITEMS
from flo.engine.results import Results
from flo.engine.run import Frame, Run
from flo.engine.step import Failure, StepType
from flo.engine.values import JsonObject

_INDEX: Final = re.compile(r"\[\d+\]")


class Types(Protocol):
    """The step types, by name."""

    def __getitem__(self, name: str) -> StepType: ...


def restore(frame: Frame, history: History, step: Step, types: Types) -> End | None:
    """How ``step`` ended in an earlier delivery, its output and those of its children in the scope; None where it has
    to run."""
    if (record := history.find(frame.path(step.id))) is None:
        return None
    tolerated = step.on_failure != "halt" or not frame.run.workflow.options.stop_on_error
    if not is_final(record, history.attempt, tolerated):
        if record.state is StepState.FAILED:
            frame.run.forget_failure(record.path)
        return None
    output = _publish(frame, history, step, types, record)
    if record.error is None:
        return End(record.state, output)
    failure = failure_of(record.error)
    # whether another try of the whole may help was not kept: the failure itself will say
    return End(record.state, output, failure, retryable=True, retried=_retried(frame.run, record, failure))


def failure_of(error: JsonObject) -> Failure:
    """The failure that a record holds."""
    return Failure(
        step_id=str(error["stepId"]),
        path=str(error["path"]),
        code=str(error["code"]),
        message=str(error["message"]),
        kind=str(error["kind"]),
    )


def _retried(run: Run, record: StepRecord, failure: Failure) -> bool:
    """Whether the retry of a step, or that of the step in it that failed, has tried."""
    if record.attempts > 1 or failure.path == record.path:
        return record.attempts > 1
    prefix = failure.path[: len(failure.path) - len(failure.step_id)]
    inside = run.past.checkpoints(run.execution.id, prefix)
    return any(held.path == failure.path and held.attempts > 1 for held in inside)


def _publish(frame: Frame, history: History, step: Step, types: Types, record: StepRecord) -> JsonObject | None:
    """Make visible what a step gave, and what ran in it outside loops."""
    step_type, scope, run = types[step.type], frame.scope, frame.run
    opened = run.vault.open(record.output)
    output = opened if isinstance(opened, dict) else None
    if output is not None and step_type.loops and LOOP_ITEMS not in output:
        items = Results(run.execution.id, record.path, run.past, run.vault.open)
        items.stored(int(str(output.get("count", 0))))
        output = {**output, LOOP_ITEMS: items}
    if output is not None:
        scope.names[step.id] = output
    scope.metas[step.id] = record
    if record.path == record.step_id:
        run.ended[step.id] = record
    for branch, block in step.branches.items():
        if _is_loop(branch, step_type):
            continue
        for child in block.steps:
            if (ended := history.find(frame.path(child.id))) is not None:
                _publish(frame, history, child, types, ended)
    return output


def _is_loop(branch: str, step_type: StepType) -> bool:
    """Whether the child list at ``branch`` (``cases[0].steps``) runs as iterations."""
    return _INDEX.sub("[]", branch) in step_type.loops
