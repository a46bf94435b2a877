"""Records of executions, and how one becomes the next."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from flo.engine.executions import Execution, ExecutionState, changed

EXECUTION = Execution(
    "e", "greet", 3, "digest", "{}", {"n": 1}, ExecutionState.PENDING, datetime(2026, 1, 1, tzinfo=UTC)
)


@pytest.mark.parametrize("name", [each.name for each in fields(Execution)])
def test_a_changed_execution_differs_in_what_was_changed_alone(name: str) -> None:
    changes: dict[str, Any] = {name: "other"}
    assert changed(EXECUTION, **changes) == replace(EXECUTION, **changes) != EXECUTION
    assert changed(EXECUTION, **{name: None}) == replace(EXECUTION, **{name: None})


def test_what_an_execution_does_not_have_cannot_be_changed() -> None:
    with pytest.raises(KeyError):
        changed(EXECUTION, sate=ExecutionState.RUNNING)
