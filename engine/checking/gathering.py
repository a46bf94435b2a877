"""The steps of a document, gathered into a tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from flo.engine.checking.envelope import check_step
from flo.engine.checking.problems import Report
from flo.engine.checking.tree import Names, Node, Siblings, at_place, expand, order, templated
from flo.engine.checking.violations import came
from flo.engine.errors import NotFound
from flo.engine.registry import Registry
from flo.engine.step import StepCall, StepType
from flo.engine.values import Json, JsonObject, Place, place_text


def _never_run(call: StepCall, input: JsonObject) -> JsonObject:
    raise AssertionError("a document with a step of no known type does not run")


_UNKNOWN: Final = StepType("", _never_run, {}, {}, "", "", {})
"""Stands for a type that is not known: the step keeps its place among the others, nothing is said about its input."""


def gather(steps: Json, registry: Registry, report: Report) -> tuple[Siblings, Names]:
    """Gather the steps of a document and those inside them, and check their fields, ids, types and ``dependsOn``."""
    names = Names()
    gatherer = _Gatherer(registry, report, names)
    root = gatherer.siblings(steps, ("steps",), None, "steps")
    for siblings in gatherer.lists:
        order(siblings, names, report)
    return root, names


class _Gatherer:
    """Walks the step lists of one document."""

    def __init__(self, registry: Registry, report: Report, names: Names) -> None:
        self._registry, self._report, self._names = registry, report, names
        self.lists: list[Siblings] = []

    def siblings(self, steps: Json, place: Place, owner: Node | None, branch: str) -> Siblings:
        """Gather one list."""
        siblings = Siblings(owner, branch)
        self.lists.append(siblings)
        for at, step in enumerate(steps if isinstance(steps, list) else ()):
            self._step(step, (*place, at), siblings)
        return siblings

    def _step(self, step: Json, place: Place, siblings: Siblings) -> None:
        step_id = step.get("stepId") if isinstance(step, Mapping) else None
        if isinstance(step_id, str):
            self._report.steps[place] = step_id
        fields = check_step(step, place, self._report)
        if not isinstance(step, Mapping):
            return
        if "dependsOn" not in fields and isinstance(waits := step.get("dependsOn"), list | str):
            fields = {**fields, "dependsOn": _names_in(waits)}
        given = step.get("input", {})
        step_type = self._type(step, place)
        if step_type is None or not isinstance(given, Mapping):
            self._names.uncertain.update(_ids(step))
            step_type, given = _UNKNOWN, {}
        called = step_id if isinstance(step_id, str) else place_text(place)
        node = Node(called, place, fields, step_type, siblings, len(siblings.nodes))
        self._input(node, given)
        siblings.nodes.append(node)
        if isinstance(step_id, str):
            self._name(node)
        self._branches(node)

    def _type(self, step: JsonObject, place: Place) -> StepType | None:
        name = step.get("stepType")
        if not isinstance(name, str) or not name:
            return None
        if name in self._registry:
            return self._registry[name]
        self._report.error((*place, "stepType"), self._unknown(name))
        return None

    def _name(self, node: Node) -> None:
        known = self._names.steps.setdefault(node.id, node)
        if known is not node:
            where = f" inside {known.siblings.owner.id!r}" if known.siblings.owner else ""
            what = f"another step{where} has the stepId {node.id!r} already; it is unique in the whole workflow"
            self._report.error((*node.place, "stepId"), what)

    def _input(self, node: Node, given: JsonObject) -> None:
        """Take the input, and what it says about the step itself."""
        node.input = given
        if "continueOnError" not in node.input or not _is_about_step(node.type):
            return
        tolerant = node.input["continueOnError"]
        node.input = {key: value for key, value in node.input.items() if key != "continueOnError"}
        node.tolerant = tolerant is True
        if not isinstance(tolerant, bool):
            place = (*node.place, "input", "continueOnError")
            self._report.error(place, f"{came(tolerant)} came, expected true or false")

    def _branches(self, node: Node) -> None:
        for branch in node.type.branches:
            for inside in templated(branch, node.input):
                what = "steps are written out in the document; a template cannot give them"
                self._report.error((*node.place, "input", *inside), what)
            for text, inside in expand(branch, node.input):
                held = at_place(node.input, inside)
                if isinstance(held, list):
                    place = (*node.place, "input", *inside)
                    node.branches[text] = self.siblings(held, place, node, branch)

    def _unknown(self, name: str) -> str:
        message = str(NotFound("step type", name, self._registry))
        broken = "; ".join(f"{held.name} ({held.place}: {held.message})" for held in self._registry.broken)
        return f"{message}; could not be loaded: {broken}" if broken else message


def _is_about_step(step_type: StepType) -> bool:
    """Whether ``continueOnError`` in the input means the step: in a container that does not itself ask for it."""
    properties = step_type.schema.get("properties")
    return bool(step_type.branches) and not (isinstance(properties, Mapping) and "continueOnError" in properties)


def _names_in(waits: list[Json] | str) -> list[Json]:
    """What can be read of a ``dependsOn`` that is not sound: the step's place among the others hangs on it."""
    return [waits] if isinstance(waits, str) else [name if isinstance(name, str) else "" for name in waits]


def _ids(value: Json) -> Iterator[str]:
    """Every stepId in a step whose type is not known."""
    if isinstance(value, Mapping):
        if isinstance(step_id := value.get("stepId"), str):
            yield step_id
        for held in value.values():
            yield from _ids(held)
    elif isinstance(value, list):
        for held in value:
            yield from _ids(held)
