"""What the tests of step types on lists share: a body called by itself, with rules that count, and an input of each."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, cast

from flo.engine.language.conditions import compile_condition
from flo.engine.language.rules import compile_rule
from flo.engine.language.scope import Scope
from flo.engine.step import Engine, Rule, StepCall
from flo.engine.values import Json, JsonObject
from flo.testing import FrozenClock

from .conftest import REGISTRY

UTC, BERLIN = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00"


RULES: Mapping[str, JsonObject] = {
    "data.filter": {"condition": True},
    "data.map": {"value": "<< $item >>"},
    "data.reduce": {"value": "<< $item >>", "initial": 0},
    "data.sort": {},
    "data.group": {"by": "<< $item >>"},
    "data.unique": {},
    "data.classify": {"cases": [{"caseId": "x", "when": True}]},
    "data.join": {"with": [], "on": "<< $item >>"},
    "data.chunk": {"size": 2},
}


class Answers:
    """An engine that evaluates rules, as a step asks for them."""

    def __init__(self, rules: Mapping[str, Json], cancelled: threading.Event, after: int | None) -> None:
        self.rules, self.asked = rules, 0
        self._cancelled, self._after = cancelled, after

    def has_rule(self, field: str) -> bool:
        return field in self.rules

    def rule(self, field: str, over: str = "items") -> Rule:
        held = self.rules[field]
        is_condition = field.endswith(("condition", "when"))
        evaluate = compile_condition(held).holds if is_condition else compile_rule(held).give
        scope = Scope()

        def rule(names: Mapping[str, Json]) -> Json:
            self.asked += 1
            if self.asked == self._after:
                self._cancelled.set()
            return evaluate(scope.child(dict(names)), lambda missing: None)

        return rule


def body(
    step_type: str, given: JsonObject, rules: Mapping[str, Json], cancel_after: int | None = None
) -> tuple[Any, Answers]:
    """What the body of a step type gives."""
    cancelled = threading.Event()
    if cancel_after == 0:
        cancelled.set()
    answers = Answers(rules, cancelled, cancel_after)
    none: Any = None
    call = StepCall(
        step_id="a", path="a", execution_id="e", attempt=1, idempotency_key="e:a", store=none, clock=FrozenClock(),
        log=lambda level, message, data=None: None, cancelled=cancelled, deadline=None, secrets=none,
        engine=cast(Engine, answers),
    )  # fmt: skip
    return REGISTRY[step_type].body(call, given), answers
