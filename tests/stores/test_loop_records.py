"""The records of loops: which iterations there are, and what has begun."""

from __future__ import annotations

import pytest

from flo.engine.executions import StepState
from flo.engine.jobs import Entries
from flo.engine.stores.store import Store

from .executing import record
from .jobs import recorded, started

LOOPS = (
    ("first", None, None, StepState.SUCCESS),
    ("each[0].a", None, None, StepState.SUCCESS),
    ("each[0].in[0].x", None, None, StepState.SUCCESS),
    ("each[0].in[0]", "each[0].in", 0, StepState.SUCCESS),
    ("each[0].in", None, None, StepState.SUCCESS),
    ("each[0]", "each", 0, StepState.SUCCESS),
    ("each[10].a", None, None, StepState.FAILED),
    ("each[10]", "each", 10, StepState.FAILED),
    ("each[1].b", None, None, StepState.SUCCESS),
    ("each[1].a", None, None, StepState.SUCCESS),
    ("each[2]", "each", 2, StepState.SKIPPED),
    ("each[3].in[7].x", None, None, StepState.FAILED),
    ("each", None, None, StepState.SUCCESS),
    ("each-more[0].a", None, None, StepState.SUCCESS),
    ("each2", None, None, StepState.FAILED),
    ("Zoë", None, None, StepState.SUCCESS),
)
"""Paths of loops in loops, in the order of storing: a loop's name begins another's, an index another index."""


@pytest.fixture
def looped(store: Store) -> str:
    """The id of an execution with the records of ``LOOPS``; another one has some more."""
    hold, other = started(store).hold, started(store).hold
    records = [record(hold.execution_id, path, loop=loop, index=at, state=state) for path, loop, at, state in LOOPS]
    recorded(store, hold, Entries(records))
    recorded(store, other, Entries([record(other.execution_id, path) for path in ("alien", "each[5].a")]))
    return hold.execution_id


@pytest.mark.parametrize(
    ("prefix", "paths"),
    [
        ("", ["first", "each", "each2", "Zoë"]),
        ("each[0].", ["each[0].a", "each[0].in"]),
        ("each[1].", ["each[1].b", "each[1].a"]),
        ("each[10].", ["each[10].a"]),
        ("each[0].in[0].", ["each[0].in[0].x"]),
        ("each[2].", []),
        ("each[3].", []),
    ],
)
def test_the_checkpoints_of_a_frame_are_its_own_steps(store: Store, looped: str, prefix: str, paths: list[str]) -> None:
    assert [one.path for one in store.executions.checkpoints(looped, prefix)] == paths


def test_the_iterations_of_a_loop_are_known_by_their_index(store: Store, looped: str) -> None:
    assert store.executions.iteration_states(looped, "each") == {
        0: StepState.SUCCESS,
        2: StepState.SKIPPED,
        10: StepState.FAILED,
    }
    assert store.executions.iteration_states(looped, "each[0].in") == {0: StepState.SUCCESS}
    assert store.executions.iteration_states(looped, "ea") == {}


def test_begun_are_the_iterations_that_have_a_step(store: Store, looped: str) -> None:
    begun = [store.executions.begun(looped, loop) for loop in ("each", "each[0].in", "each-more", "ea")]
    assert begun == [{0, 1, 3, 10}, {0}, {0}, set()]


def test_the_first_failures_are_those_of_steps(store: Store, looped: str) -> None:
    failures = ["each[10].a", "each[3].in[7].x", "each2"]
    assert [one.path for one in store.executions.failures(looped)] == failures
    assert [one.path for one in store.executions.failures(looped, limit=2)] == failures[:2]
