"""The steps of a document, gathered into a tree: those that have an id, and a type that is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flo.engine.checking.envelope import check_step
from flo.engine.checking.problems import Report
from flo.engine.checking.tree import Names, Node, Siblings, at_place, expand, order, templated
from flo.engine.checking.violations import came
from flo.engine.errors import NotFound
from flo.engine.registry import Registry
from flo.engine.step import StepType
from flo.engine.values import Json, JsonObject, Place


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
        self._places: dict[str, Place] = {}
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
        sound = check_step(step, place, self._report)
        if not isinstance(step, Mapping):
            return
        name = step.get("stepType")
        known = isinstance(name, str) and name in self._registry
        if isinstance(name, str) and name and not known:
            self._report.error((*place, "stepType"), self._unknown(name))
        if not known or not isinstance(step_id, str):
            self._names.uncertain.update(_ids(step))
            return
        node = Node(
            id=step_id,
            place=place,
            fields=step if sound else _graph_fields(step),
            type=self._registry[str(name)],
            siblings=siblings,
            position=len(siblings.nodes),
        )
        self._input(node, step.get("input", {}))
        siblings.nodes.append(node)
        if self._names.steps.setdefault(step_id, node) is not node:
            first = self._names.steps[step_id].siblings.owner
            where = f" inside {first.id!r}" if first else ""
            what = f"another step{where} has the stepId {step_id!r} already; it is unique in the whole workflow"
            self._report.error((*place, "stepId"), what)
        self._branches(node)

    def _input(self, node: Node, given: Json) -> None:
        """Take the input, and what it says about the step itself."""
        node.input = given if isinstance(given, Mapping) else {}
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


def _graph_fields(step: JsonObject) -> JsonObject:
    """Of a step with unsound fields only what its place among the others depends on, so that they can be checked."""
    depends_on: Any = step.get("dependsOn")
    sound = isinstance(depends_on, list) and all(isinstance(name, str) for name in depends_on)
    return {"dependsOn": depends_on} if sound else {}


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
