"""What an earlier delivery of an execution did: the records of its steps, read as far as they are needed."""

from __future__ import annotations

from collections.abc import Mapping, Set

from flo.engine.executions import StepRecord, StepState
from flo.engine.past import Past


class History:
    """The records of the steps of one frame, and of the loops in it. ``attempt`` is the attempt that runs now."""

    def __init__(self, past: Past, execution_id: str, attempt: int, prefix: str = "") -> None:
        self.attempt = attempt
        self._past, self._execution_id, self._prefix = past, execution_id, prefix
        self._records = {record.path: record for record in past.checkpoints(execution_id, prefix)}

    def find(self, path: str) -> StepRecord | None:
        """The record of the step at ``path``, if it ended."""
        return self._records.get(path)

    def loop(self, path: str) -> LoopHistory:
        """What was done of the loop at ``path``."""
        states = self._past.iteration_states(self._execution_id, path)
        return LoopHistory(states, self._past.begun(self._execution_id, path))

    def inside(self, prefix: str) -> History:
        """The history of an iteration in which steps have ended."""
        return History(self._past, self._execution_id, self.attempt, prefix)


class LoopHistory:
    """What was done of one loop: how iterations ended, and which have steps that ended."""

    def __init__(self, states: Mapping[int, StepState], begun: Set[int]) -> None:
        self.states, self.begun = states, begun

    def ended(self, index: int, tolerate: bool) -> StepState | None:
        """How an iteration ended that need not run again. One that failed is final where that is tolerated."""
        state = self.states.get(index)
        final = state in (StepState.SUCCESS, StepState.SKIPPED) or (tolerate and state is StepState.FAILED)
        return state if final else None


def is_final(record: StepRecord, attempt: int, tolerated: bool) -> bool:
    """Whether a step that has this record need not run again in this attempt at its execution.

    A failure stands where it was tolerated. Else it stands within the attempt in which it came about: it has decided
    what comes after it. The next attempt tries the step again.
    """
    match record.state:
        case StepState.SUCCESS | StepState.SKIPPED:
            return True
        case StepState.FAILED:
            return tolerated or record.execution_attempt == attempt
        case _:
            return False
