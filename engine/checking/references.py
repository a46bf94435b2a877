"""Who sees whom: what a path in a template may refer to, and why not."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from itertools import takewhile
from typing import Final

from flo.engine.checking.problems import Report
from flo.engine.checking.tree import Names, Node, Siblings
from flo.engine.errors import caret, did_you_mean
from flo.engine.language.paths import Path
from flo.engine.language.scope import META, ROOTS
from flo.engine.values import Place

EVERYWHERE: Final = frozenset({"initial", "$vars", "$env", "$connections", "$execution", "$errors", "$util"})
BEFORE_THE_RUN: Final = frozenset({"initial", "$env", "$connections", "$util"})
"""What is there before a run has begun: for triggers and concurrency keys."""
LOOP_NAMES: Final = ROOTS - EVERYWHERE

_COMPARED: Final = 100
"""An unknown name is compared with so many steps before it: a long document full of slips is still told soon."""
_KEYS: Final[Mapping[str, Collection[str]]] = {
    "$util": ("uuid", "now", "timestamp", "today", "emptyArray", "emptyObject"),
    "$execution": ("id", "workflow", "version", "startedAt", "attempt", "trigger"),
    "$parent": ("item", "index", "isFirst", "isLast", "parent"),
    META: (
        "success", "skipped", "durationMilliseconds", "stepType", "attempts", "operationalStatus", "error",
        "operationalErrors",
    ),
}  # fmt: skip


def check_path(path: Path, place: Place, node: Node, names: Names, report: Report, more: Collection[str] = ()) -> None:
    """Check a path that a template of ``node`` refers to. ``more`` names roots that are there besides."""
    root = path.root
    if root in EVERYWHERE or root in more:
        _check_key(path, root, 0, place, report)
    elif root in LOOP_NAMES:
        if not any(siblings.loop for _, siblings in node.around()):
            _refuse(path, place, f"{root!r} is only there inside a loop, such as the 'steps' of core.for-each", report)
        _check_key(path, root, 0, place, report)
    elif root in names.steps:
        reason = _unseen(names.steps[root], node)
        if reason:
            _refuse(path, place, reason, report)
        else:
            _check_step_key(path, names.steps[root], place, report)
    elif root not in names.uncertain:
        hint = did_you_mean(root, (*more, *_visible(node, names)))
        if not hint and "$item" in more:
            hint = f"; of an item it is {f'$item.{path.text}'!r}"
        _refuse(path, place, f"no step or name {root!r}{hint}", report)


def check_early_path(path: Path, place: Place, report: Report) -> None:
    """Check a path of a template that is resolved before the run begins."""
    if path.root in BEFORE_THE_RUN:
        _check_key(path, path.root, 0, place, report)
    else:
        known = ", ".join(sorted(BEFORE_THE_RUN))
        _refuse(path, place, f"{path.root!r} is not there before the run begins; what is: {known}", report)


def _unseen(target: Node, node: Node) -> str:
    """Why ``node`` does not see ``target``; nothing where it does."""
    mine = {id(siblings): (step, siblings) for step, siblings in node.around()}
    within: Siblings | None = None
    loops: list[str] = []
    for step, siblings in target.around():
        if id(siblings) in mine:
            ours = mine[id(siblings)][0]
            if ours is step:
                return _in_one_step(target, node, step, within, loops)
            return _in_one_list(target, step, ours, siblings, loops)
        if siblings.loop and siblings.owner is not None:
            loops.append(siblings.owner.id)
        within = siblings
    raise AssertionError("two steps of one document share at least its outermost list")


def _in_one_step(target: Node, node: Node, step: Node, within: Siblings | None, loops: list[str]) -> str:
    """``step`` is both around or equal to ``target`` and around or equal to ``node``; ``within`` is the target's branch
    of it."""
    if target is node:
        return f"{target.id!r} is this step itself; its output is not there yet"
    if target is step:
        return f"{target.id!r} is around this step; its output is there when it has ended"
    if node is step:
        return f"{target.id!r} runs inside this step, after its input is resolved"
    ours = next(siblings for _, siblings in node.around() if siblings.owner is step)
    assert within is not None
    if within.branch not in step.type.follows.get(ours.branch, ()):
        return f"{target.id!r} is in another branch of {step.id!r}"
    return _after_loop(target, loops)


def _in_one_list(target: Node, theirs: Node, ours: Node, siblings: Siblings, loops: list[str]) -> str:
    if siblings.ends_before(theirs, ours):
        return _after_loop(target, loops)
    if siblings.parallel:
        return f"{target.id!r} runs at the same time; steps of a parallel list do not see each other"
    if siblings.plain or siblings.ends_before(ours, theirs):
        return f"{target.id!r} runs after this step"
    return f"{target.id!r} need not have ended when this step starts; add {theirs.id!r} to 'dependsOn' of {ours.id!r}"


def _after_loop(target: Node, loops: list[str]) -> str:
    if not loops:
        return ""
    return f"{target.id!r} ran inside loop {loops[-1]!r}; read its results from {f'{loops[-1]}.items'!r}"


def _check_step_key(path: Path, target: Node, place: Place, report: Report) -> None:
    """An output that the step type does not have is most likely a slip; it is null at run time."""
    if not path.segments or not isinstance(key := path.segments[0], str):
        return
    if key == META:
        _check_key(path, META, 1, place, report)
        return
    schema = target.type.output_schema
    known = schema.get("properties")
    if schema.get("additionalProperties") is False and isinstance(known, Mapping) and key not in known:
        hint = did_you_mean(key, known) or f"; it has {', '.join(map(repr, known))}"
        report.warn(place, f"{target.type.name} gives no {key!r}{hint}{_shown(path)}")


def _check_key(path: Path, holder: str, at: int, place: Place, report: Report) -> None:
    known = _KEYS.get(holder)
    if known and len(path.segments) > at and isinstance(key := path.segments[at], str) and key not in known:
        hint = did_you_mean(key, known) or f"; it has {', '.join(map(repr, known))}"
        _refuse(path, place, f"{holder!r} has no {key!r}{hint}", report)


def _visible(node: Node, names: Names) -> Iterator[str]:
    yield from EVERYWHERE
    if any(siblings.loop for _, siblings in node.around()):
        yield from LOOP_NAMES
    nearest = deque(takewhile(lambda name: name != node.id, names.steps), _COMPARED)
    yield from (name for name in nearest if not _unseen(names.steps[name], node))


def _refuse(path: Path, place: Place, reason: str, report: Report) -> None:
    report.error(place, reason + _shown(path))


def _shown(path: Path) -> str:
    return f"\n{caret(path.source, path.position)}" if path.source else ""
