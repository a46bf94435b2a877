"""The steps of a document as a tree: what stands in which list of which step, and what has to end before what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flo.engine.checking.problems import Report
from flo.engine.errors import did_you_mean
from flo.engine.language.marks import has_marks
from flo.engine.step import StepType
from flo.engine.values import Json, JsonObject, Place


@dataclass(slots=True, eq=False)
class Node:
    """A step of the document. ``fields`` are those of its own fields that are sound; of a ``dependsOn`` that is not,
    what can be read of it. ``input`` is its input as written, but for a ``continueOnError`` that is about the step:
    ``tolerant``. Without a sound type and input it stands there with a type that knows nothing, and an empty input."""

    id: str
    place: Place
    fields: JsonObject
    type: StepType
    siblings: Siblings
    position: int
    input: JsonObject = field(default_factory=dict)
    tolerant: bool = False
    branches: dict[str, Siblings] = field(default_factory=dict)

    def around(self) -> Iterator[tuple[Node, Siblings]]:
        """This step, then each step around it, innermost first, each with the list that it stands in."""
        node: Node | None = self
        while node is not None:
            yield node, node.siblings
            node = node.siblings.owner


@dataclass(slots=True, eq=False)
class Siblings:
    """A list of steps. ``owner`` is the step whose input holds it, ``branch`` its name in the step type
    (``cases[].steps``).

    ``needs`` gives for each step the positions of those it waits for; ``before`` the same for all that end before it,
    as bits. ``before`` is empty in a sequential list, where every earlier step does.
    """

    owner: Node | None
    branch: str
    nodes: list[Node] = field(default_factory=list)
    needs: list[tuple[int, ...]] = field(default_factory=list)
    before: list[int] = field(default_factory=list)

    @property
    def parallel(self) -> bool:
        """Whether its steps all start at once."""
        return self.owner is not None and self.branch in self.owner.type.parallel

    @property
    def loop(self) -> bool:
        """Whether it runs once for each item."""
        return self.owner is not None and self.branch in self.owner.type.loops

    @property
    def plain(self) -> bool:
        """Whether it is sequential."""
        return not self.before

    def ends_before(self, first: Node, second: Node) -> bool:
        """Whether ``first`` has ended when ``second`` starts, both of this list."""
        if self.parallel:
            return False
        if self.before:
            return bool(self.before[second.position] >> first.position & 1)
        return first.position < second.position


@dataclass(slots=True)
class Names:
    """The steps of a document by their id. ``uncertain`` are ids inside steps whose type is not known: nothing can be
    said about them."""

    steps: dict[str, Node] = field(default_factory=dict)
    uncertain: set[str] = field(default_factory=set)


def every(siblings: Siblings) -> Iterator[Node]:
    """Each step of a list, and those inside it."""
    for node in siblings.nodes:
        yield node
        for branch in node.branches.values():
            yield from every(branch)


def expand(pattern: str, value: Json) -> list[tuple[str, Place]]:
    """The places in ``value`` that a pattern such as ``cases[].steps`` names, each with its concrete spelling."""
    found: list[tuple[str, Place, Json]] = [("", (), value)]
    for part in pattern.split("."):
        key, many = part.removesuffix("[]"), part.endswith("[]")
        inside: list[tuple[str, Place, Json]] = []
        for text, place, held in found:
            if not isinstance(held, Mapping) or key not in held:
                continue
            text, place, held = (f"{text}.{key}" if text else key), (*place, key), held[key]
            if not many:
                inside.append((text, place, held))
            elif isinstance(held, list):
                inside += [(f"{text}[{at}]", (*place, at), item) for at, item in enumerate(held)]
        found = inside
    return [(text, place) for text, place, _ in found]


def at_place(value: Any, place: Place) -> Json:
    """The value at a place that is there."""
    for part in place:
        value = value[part]
    held: Json = value
    return held


def templated(pattern: str, value: Json) -> list[Place]:
    """Where a template stands on the way to the places that a pattern names."""
    found: list[Place] = []
    parts = pattern.split(".")
    for length in range(1, len(parts) + 1):
        way = ".".join(parts[:length])
        for _, place in {*expand(way, value), *expand(way.removesuffix("[]"), value)}:
            held = at_place(value, place)
            if isinstance(held, str) and has_marks(held):
                found.append(place)
    return found


def order(siblings: Siblings, names: Names, report: Report) -> None:
    """Fill ``needs`` and ``before`` from what ``dependsOn`` says. Unknown names and cycles are reported."""
    nodes = siblings.nodes
    graph = [node for node in nodes if "dependsOn" in node.fields]
    if siblings.parallel:
        siblings.needs = [() for _ in nodes]
        for node in graph:
            assert siblings.owner is not None
            what = f"the steps of {siblings.owner.id!r} all start at once; 'dependsOn' has no place there"
            report.error((*node.place, "dependsOn"), what)
        return
    siblings.needs = [(at - 1,) if at else () for at in range(len(nodes))]
    if not graph:
        return
    positions = {node.id: node.position for node in reversed(nodes)}
    for node in graph:
        siblings.needs[node.position] = tuple(_named(node, positions, names, report))
    _close(siblings, report)


def _named(node: Node, positions: Mapping[str, int], names: Names, report: Report) -> Iterator[int]:
    wanted = node.fields["dependsOn"]
    assert isinstance(wanted, list)
    for at, name in enumerate(wanted):
        if name in positions:
            yield positions[str(name)]
            continue
        place = (*node.place, "dependsOn", at)
        if name in names.steps:
            report.error(place, f"{name!r} is not in the list of {node.id!r}; a step depends on steps of its own list")
        elif name and name not in names.uncertain:
            report.error(place, f"no step {name!r}{did_you_mean(str(name), positions)}")


def _close(siblings: Siblings, report: Report) -> None:
    """Compute who ends before whom. Where steps wait for each other the circle is reported, and cut."""
    needs = siblings.needs
    siblings.before = [0] * len(needs)
    waiting = dict(enumerate(needs))
    followers: list[list[int]] = [[] for _ in needs]
    for at, wanted in enumerate(needs):
        for other in wanted:
            followers[other].append(at)
    left = [len(wanted) for wanted in needs]
    ready = [at for at in waiting if not left[at]]
    while waiting:
        if not ready:
            circle = _circle(waiting)
            _report_circle(siblings, circle, report)
            ready = circle
        at = ready.pop()
        if waiting.pop(at, None) is None:
            continue
        for other in needs[at]:
            siblings.before[at] |= siblings.before[other] | 1 << other
        for follower in followers[at]:
            left[follower] -= 1
            if not left[follower] and follower in waiting:
                ready.append(follower)


def _circle(waiting: Mapping[int, Sequence[int]]) -> list[int]:
    """Steps that wait for each other in a circle, among those that wait."""
    path: list[int] = []
    at = next(iter(waiting))
    while at not in path:
        path.append(at)
        at = next(other for other in waiting[at] if other in waiting)
    return path[path.index(at) :]


def _report_circle(siblings: Siblings, circle: Sequence[int], report: Report) -> None:
    nodes = [siblings.nodes[at] for at in circle]
    first = min((node for node in nodes if "dependsOn" in node.fields), key=lambda node: node.position)
    start = nodes.index(first)
    names = [node.id for node in (*nodes[start:], *nodes[:start], first)]
    what = "a step cannot wait for itself" if len(nodes) == 1 else "steps wait for each other in a circle"
    report.error((*first.place, "dependsOn"), f"{what}: {' → '.join(names)} (→ waits for)")
