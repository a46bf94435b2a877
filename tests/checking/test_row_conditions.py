"""What ``where``, ``orderBy`` and ``set`` say is checked when the document is loaded, as far as it stands there."""

from __future__ import annotations

from typing import Any

import pytest

from flo.engine.checking.load import load
from flo.engine.errors import WorkflowInvalid
from flo.engine.registry import Registry

REGISTRY = Registry.installed()


def claim(**more: Any) -> dict[str, Any]:
    return {"steps": [{"stepId": "a", "stepType": "data-store.atomic-claim", "input": {"tableName": "t", **more}}]}


@pytest.mark.parametrize(
    ("more", "place", "hint"),
    [
        ({"where": [{"field": "s", "operator": "equal", "value": 1}]}, "where[0].operator", "did you mean 'equals'"),
        ({"where": {"field": "s", "oprator": "equals", "value": 1}}, "where.oprator", "did you mean 'operator'"),
        ({"where": ["status"]}, "where[0]", "an object"),
        ({"orderBy": {"field": "s", "direction": "up"}}, "orderBy.direction", '"desc"'),
        ({"orderBy": [{"direction": "asc"}]}, "orderBy[0]", "'field' is required"),
        ({"set": [{"field": "n", "operation": "incr"}]}, "set[0].operation", "did you mean 'increment'"),
    ],
)
def test_a_slip_in_a_row_condition_is_told_before_anything_runs(more: dict[str, Any], place: str, hint: str) -> None:
    with pytest.raises(WorkflowInvalid) as invalid:
        load(claim(**more), REGISTRY)
    [problem] = invalid.value.problems
    assert problem.place == f"steps[0].input.{place}"
    assert hint in problem.message


@pytest.mark.parametrize(
    "where",
    [
        "<< initial.where >>",
        [],
        {"all": []},
        {"field": "s", "operator": "<< initial.operator >>", "value": 1},
        [{"any": [{"field": "a", "operator": "eq", "value": 1}, {"all": []}]}],
        [{"field": "s", "operator": "in", "value": "<< initial.list >>"}],
    ],
)
def test_what_templates_leave_open_is_left_to_the_run(where: Any) -> None:
    assert load(claim(where=where), REGISTRY).warnings == ()
