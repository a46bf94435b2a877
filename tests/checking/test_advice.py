"""What a workflow may say but probably does not mean."""

from __future__ import annotations

from typing import Any

import pytest

from flo.engine.checking.load import load
from flo.engine.errors import WorkflowInvalid
from flo.engine.registry import Registry

GUARD = {"field": "claimedBy", "operator": "equals", "value": "<< $execution.id >>"}


@pytest.fixture(scope="module")
def shipped() -> Registry:
    return Registry.installed()


def warnings(steps: list[Any], registry: Registry) -> list[tuple[str, str | None]]:
    """Place and step of each warning."""
    told = load({"steps": steps}, registry).warnings
    assert all(problem.severity == "warning" for problem in told)
    return [(problem.place, problem.step_id) for problem in told]


def claiming(table: str = "ops", **update: Any) -> list[Any]:
    claim = {"stepId": "claim", "stepType": "data-store.atomic-claim", "input": {"tableName": table}}
    change = {"tableName": "ops", "key": "k", "set": {"field": "status", "operation": "set", "value": "done"}, **update}
    return [claim, {"stepId": "mark", "stepType": "data-store.atomic-update", "input": change}]


def looping(concurrency: Any, kind: str = "core.for-each", **more: Any) -> list[Any]:
    write = {"stepId": "w", "stepType": "core.set-variable", "input": {"x": 1}}
    inner = {"stepId": "i", "stepType": "core.if", "input": {"condition": True, "then": [write]}}
    return [{"stepId": "l", "stepType": kind, "input": {"steps": [inner], "concurrency": concurrency, **more}}]


def test_a_claimed_table_that_is_changed_without_a_guard_is_a_warning(shipped: Registry) -> None:
    assert warnings(claiming(), shipped) == [("steps[1].input", "mark")]
    assert warnings(claiming(where=[{"field": "status", "operator": "equals", "value": "x"}]), shipped)


@pytest.mark.parametrize("where", [[GUARD], GUARD, [{"any": [{"all": [GUARD]}]}]])
def test_a_guard_on_the_holder_is_found_wherever_it_stands(where: Any, shipped: Registry) -> None:
    assert warnings(claiming(where=where), shipped) == []


def test_a_table_that_nothing_claims_needs_no_guard(shipped: Registry) -> None:
    assert warnings(claiming("others"), shipped) == []


@pytest.mark.parametrize("table", [{}, {"tableName": []}])
def test_a_table_that_is_not_named_is_wrong_and_nothing_more(table: dict[str, Any], shipped: Registry) -> None:
    claim, change = claiming()
    claim["input"], change["input"] = table, {**table, "key": "k", "set": []}
    with pytest.raises(WorkflowInvalid) as invalid:
        load({"steps": [claim, change]}, shipped)
    assert [problem.severity for problem in invalid.value.problems] == ["error", "error"]


def test_a_variable_written_by_iterations_that_run_at_once_is_a_warning(shipped: Registry) -> None:
    place = "steps[0].input.steps[0].input.then[0].input"
    assert warnings(looping(2, items=[1]), shipped) == [(place, "w")]
    assert warnings(looping(1, items=[1]), shipped) == []


def test_a_variable_written_by_parallel_steps_is_a_warning(shipped: Registry) -> None:
    place = "steps[0].input.steps[0].input.then[0].input"
    assert warnings(looping(2, "core.parallel"), shipped) == [(place, "w")]
