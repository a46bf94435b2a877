"""A workflow as a picture: a Mermaid flowchart of its steps, of what waits for what, and of what starts it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from flo.engine.checking.document import read_document
from flo.engine.checking.tree import at_place, expand
from flo.engine.commands.trigger_words import when
from flo.engine.frozen import frozen
from flo.engine.registry import Registry
from flo.engine.step import StepType
from flo.engine.triggers import KINDS, WantedTrigger
from flo.engine.values import Json, JsonObject, shown

_CONDITION_CHARACTERS: Final = 60
_SPECIAL: Final = re.compile(r"[^\w .,…'/=+%!?@()$|-]|(?<!\w)_|[.)+-](?=\s|$)|[$%](?=[$%])")
"""What is written as a character's number: all that Mermaid, or the Markdown and the formulas in its labels, may take
for something else. A colon too: Mermaid changes what stands behind words such as ``style:``."""
_WHOLE: Final = re.compile(r"\s*(?:<<|\{\{)-?((?:(?!<<|>>|\{\{|\}\}).)*?)-?(?:>>|\}\})\s*", re.DOTALL)
_UNKNOWN_CLASS: Final = "    classDef unknown stroke-dasharray: 5 5"


def diagram(document: str | JsonObject, registry: Registry, source: str = "workflow") -> str:
    """Draw a workflow as Mermaid. The same document gives the same text, a line each node and edge.

    A step that holds others is a subgraph, one with branches has its question as a diamond. A dashed arrow leads on
    from a step whose failure is tolerated. A type that is not in ``registry`` is a node with a dashed frame: what may
    be inside it cannot be known. Raises ``InputInvalid`` and ``WorkflowInvalid`` for what is no document.
    """
    meaning = read_document(document, source).meaning
    options = meaning.get("options")
    page = _Page(registry, isinstance(options, Mapping) and options.get("stopOnError") is False)
    entries = _list(page, meaning.get("steps"), 1)
    _triggers(page, meaning.get("triggers"), entries)
    legend = [_UNKNOWN_CLASS, f"    class {','.join(page.unknown)} unknown"] if page.unknown else []
    return "".join(f"{line}\n" for line in ["flowchart TD", *page.nodes, *page.edges, *legend])


@dataclass(slots=True)
class _Page:
    """What is drawn so far. Edges come after all nodes: a node belongs to the subgraph that first names it."""

    registry: Registry
    goes_on: bool
    nodes: list[str] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    drawn: int = 0

    def put(self, level: int, line: str) -> None:
        self.nodes.append(f"{'    ' * level}{line}")

    def link(self, first: str, second: str, label: str = "", *, dashed: bool = False) -> None:
        arrow = "-.->" if dashed else "-->"
        self.edges.append(f"    {first} {arrow}{_edge_label(label)} {second}")

    def new_id(self) -> str:
        self.drawn += 1
        return f"s{self.drawn}"


@frozen
class _Branch:
    """A list of steps in the input of a step: its name in the step type, what to call it, and the steps."""

    pattern: str
    label: str
    steps: Sequence[Json]


def _list(page: _Page, steps: Json, level: int, *, parallel: bool = False) -> list[str]:
    """Draw a list of steps; gives the nodes that it starts with."""
    listed = [step for step in steps if isinstance(step, Mapping)] if isinstance(steps, list) else []
    ids = [_step(page, step, level) for step in listed]
    positions = {step.get("stepId"): at for at, step in reversed(list(enumerate(listed)))}
    entries = []
    for at, step in enumerate(listed):
        wanted = step.get("dependsOn")
        if isinstance(wanted, list):
            needs = [positions[name] for name in wanted if isinstance(name, str) and name in positions]
        else:
            needs = [at - 1] if at and not parallel else []
        for need in needs:
            page.link(ids[need], ids[at], dashed=_tolerated(page, listed[need]))
        if not needs:
            entries.append(ids[at])
    return entries


def _step(page: _Page, step: JsonObject, level: int) -> str:
    """Draw a step and what it holds; gives its node."""
    node, called = page.new_id(), str(step.get("stepType", ""))
    name, skip = _escaped(str(step.get("stepId", ""))), step.get("skipCondition")
    skipped = [] if skip in (None, False) else [f"skipped if {_escaped(_asked(skip))}"]
    if called not in page.registry:
        page.unknown.append(node)
        page.put(level, _node(node, [name, _escaped(called), *skipped]))
        return node
    step_type = page.registry[called]
    branches = [branch for branch in _branches(step_type, step.get("input")) if branch.steps]
    if not branches:
        page.put(level, _node(node, [name, _escaped(step_type.name), *skipped]))
        return node
    title = ", ".join([f"{name} ({_escaped(step_type.name)})", *skipped])
    page.put(level, f'subgraph {node}["{title}"]')
    _inside(page, node, step_type, branches, step.get("input"), level + 1)
    page.put(level, "end")
    return node


def _inside(page: _Page, node: str, step_type: StepType, branches: Sequence[_Branch], given: Json, level: int) -> None:
    """Draw what a step holds: alternatives behind their question, else its lists beside each other."""
    if step_type.conditions and not step_type.loops:
        question = f"{node}q"
        page.put(level, f'{question}{{"{_question(step_type, given)}"}}')
        for branch in branches:
            for entry in _list(page, branch.steps, level, parallel=branch.pattern in step_type.parallel):
                page.link(question, entry, branch.label)
        return
    if len(branches) == 1:
        _list(page, branches[0].steps, level, parallel=branches[0].pattern in step_type.parallel)
        return
    drawn: dict[str, list[str]] = {}
    for number, branch in enumerate(branches, 1):
        inner = f"{node}b{number}"
        page.put(level, f'subgraph {inner}["{_escaped(branch.label)}"]')
        _list(page, branch.steps, level + 1, parallel=branch.pattern in step_type.parallel)
        page.put(level, "end")
        for earlier in step_type.follows.get(branch.pattern, ()):
            for before in drawn.get(earlier, ()):
                page.link(before, inner, "failure" if branch.pattern == "catch" else "")
        drawn.setdefault(branch.pattern, []).append(inner)


def _branches(step_type: StepType, given: Json) -> list[_Branch]:
    """The lists in the input of a step, and in the documents that it holds."""
    found = []
    for pattern in step_type.branches:
        for text, place in expand(pattern, given):
            steps = at_place(given, place)
            around = at_place(given, place[:-1])
            named = around.get("caseId") if "[]" in pattern and isinstance(around, Mapping) else None
            label = named if isinstance(named, str) else text
            found.append(_Branch(pattern, label, steps if isinstance(steps, list) else ()))
    for name in step_type.documents:
        held = given.get(name) if isinstance(given, Mapping) else None
        if isinstance(held, Mapping):
            steps = read_document(held, name).meaning.get("steps")
            found.append(_Branch(name, name, steps if isinstance(steps, list) else ()))
    return found


def _question(step_type: StepType, given: Json) -> str:
    """What decides between the branches of a step: its condition, where it has a single one."""
    asked = [(pattern, place) for pattern in step_type.conditions for _, place in expand(pattern, given)]
    if len(asked) == 1 and "[]" not in asked[0][0]:
        return _escaped(_asked(at_place(given, asked[0][1])))
    return "the first case that holds"


def _asked(condition: Json) -> str:
    """A condition in few words: an expression without its marks, everything else as JSON."""
    if not isinstance(condition, str):
        return shown(condition, _CONDITION_CHARACTERS)
    whole = _WHOLE.fullmatch(condition)
    text = " ".join((whole[1] if whole else condition).split())
    return text if len(text) <= _CONDITION_CHARACTERS else f"{text[: _CONDITION_CHARACTERS - 1]}…"


def _tolerated(page: _Page, step: JsonObject) -> bool:
    """Whether the steps behind a step run after its failure, too."""
    if page.goes_on or step.get("onFailure") == "continue" or step.get("continueOnError") is True:
        return True
    given, called = step.get("input"), str(step.get("stepType", ""))
    if not isinstance(given, Mapping) or called not in page.registry or given.get("continueOnError") is not True:
        return False
    properties = page.registry[called].schema.get("properties")
    asks_for_it = isinstance(properties, Mapping) and "continueOnError" in properties
    return bool(page.registry[called].branches) and not asks_for_it


def _triggers(page: _Page, triggers: Json, entries: Sequence[str]) -> None:
    """Draw what starts the workflow; one that is switched off is tied to it by a dashed line."""
    for number, trigger in enumerate(triggers if isinstance(triggers, list) else (), 1):
        if not isinstance(trigger, Mapping):
            continue
        node = f"t{number}"
        lines = [line for line in (str(trigger.get("name", "")), _words(trigger)) if line]
        page.put(1, f'{node}(["{"<br/>".join(map(_escaped, lines))}"])')
        for entry in entries:
            page.link(node, entry, dashed=trigger.get("enabled") is False)


def _words(trigger: JsonObject) -> str:
    """What fires a trigger."""
    kind, config = trigger.get("type"), trigger.get("config")
    for known in KINDS:
        if kind == known:
            held = config.get(known) if isinstance(config, Mapping) else None
            return when(WantedTrigger("", known, held if isinstance(held, Mapping) else {}))
    return str(kind)


def _node(node: str, lines: Sequence[str]) -> str:
    return f'{node}["{"<br/>".join(lines)}"]'


def _edge_label(label: str) -> str:
    return f'|"{_escaped(label)}"|' if label else ""


def _escaped(text: str) -> str:
    """Text as it may stand between the quotes of a label, on one line."""
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", " ".join(text.split()))
