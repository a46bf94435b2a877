"""The steps of an execution as a tree: how each ended and how long it took, loops in a line, waits and the executions
it started in their places."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from flo.engine.checking.document import read_document
from flo.engine.checking.tree import at_place, expand
from flo.engine.commands.output import one_line, write
from flo.engine.errors import InputInvalid, WorkflowInvalid
from flo.engine.executions import Execution, ExecutionState, StepRecord, StepState
from flo.engine.frozen import frozen
from flo.engine.instants import write_instant
from flo.engine.jobs import Wait
from flo.engine.registry import Registry
from flo.engine.stores.base import ExecutionStore
from flo.engine.values import Json, JsonObject

SHOWN_ITERATIONS: Final = 3
"""So many iterations of a loop are shown of those that failed, of those that wait, and of those that started others; in
a loop inside a loop one."""

_MESSAGE_CHARACTERS: Final = 500
_INDEX: Final = re.compile(r"\[(\d+)\]")
_COLOURS: Final = {
    "success": 32,
    "failed": 31,
    "timed_out": 31,
    "cancelled": 33,
    "waiting": 33,
    "suspended": 33,
    "retrying": 33,
    "completed_with_errors": 33,
    "skipped": 2,
    "not run": 2,
    "not ended": 2,
}
"""The codes in which a terminal takes the colours of states."""
_CRASHES: Final = ("crashed", "poison")


@frozen
class Line:
    """A line of the tree. ``state`` is a state in one word, empty where there is nothing to tell."""

    name: str
    type: str = ""
    state: str = ""
    took: str = ""
    note: str = ""
    inside: Sequence[Line] = ()


@frozen
class Records:
    """The records of the steps of an execution, as the tree asks for them.

    ``frame`` gives those whose path is a prefix and a name, ``states`` how the iterations of a loop ended,
    ``iteration`` one of them.
    """

    frame: Callable[[str], Sequence[StepRecord]]
    states: Callable[[str], Mapping[int, StepState]]
    iteration: Callable[[str, int], StepRecord | None]
    everything: bool = False


def records_of(store: ExecutionStore, execution_id: str, top: Sequence[StepRecord]) -> Records:
    """Records that are read when they are asked for: of a loop how its iterations ended, and the few that are shown."""

    def iteration(loop: str, index: int) -> StepRecord | None:
        return next(iter(store.iterations(execution_id, loop, start=index, limit=1)), None)

    return Records(
        lambda prefix: store.checkpoints(execution_id, prefix) if prefix else top,
        lambda loop: store.iteration_states(execution_id, loop),
        iteration,
    )


def all_records(steps: Iterable[StepRecord]) -> Records:
    """Records that are all there: the tree shows every iteration."""
    frames: dict[str, list[StepRecord]] = {}
    loops: dict[str, dict[int, StepRecord]] = {}
    for step in steps:
        if step.loop is not None and step.index is not None:
            loops.setdefault(step.loop, {})[step.index] = step
        else:
            frames.setdefault(step.path.removesuffix(step.step_id), []).append(step)
    return Records(
        lambda prefix: frames.get(prefix, ()),
        lambda loop: {index: step.state for index, step in loops.get(loop, {}).items()},
        lambda loop, index: loops.get(loop, {}).get(index),
        everything=True,
    )


def tree(
    execution: Execution,
    registry: Registry,
    records: Records,
    waits: Sequence[Wait],
    children: Sequence[Execution],
) -> Sequence[Line]:
    """The tree of an execution. What of it has no place in its definition, as this process knows it, comes last."""
    drawing = _Tree(execution, registry, records)
    for wait in waits:
        drawing.waits.setdefault(wait.path, []).append(wait)
    for child in reversed(children):
        drawing.children.setdefault(child.parent_path or "", []).append(child)
    try:
        steps = read_document(execution.definition, "definition").meaning.get("steps")
    except (InputInvalid, WorkflowInvalid):  # history that comes from elsewhere
        steps = None
    return [*drawing.steps(steps, ""), *drawing.left_over()]


@dataclass(slots=True)
class _Tree:
    """What is known of an execution, and what of it was shown."""

    execution: Execution
    registry: Registry
    records: Records
    waits: dict[str, list[Wait]] = field(default_factory=dict)
    children: dict[str, list[Execution]] = field(default_factory=dict)
    placed: set[str] = field(default_factory=set)
    frames: dict[str, Mapping[str, StepRecord]] = field(default_factory=dict)

    def steps(self, steps: Json, prefix: str) -> list[Line]:
        """A list of steps."""
        listed = steps if isinstance(steps, list) else ()
        return [self.step(step, prefix) for step in listed if isinstance(step, Mapping)]

    def step(self, step: JsonObject, prefix: str) -> Line:
        """A step, and what it holds."""
        name, called = str(step.get("stepId", "")), str(step.get("stepType", ""))
        path = f"{prefix}{name}"
        self.placed.add(path)
        record = self.frame(prefix).get(name)
        line = self._line(name, called, path, record)
        inside = [_child(child) for child in self.children.get(path, ())]
        for label, steps, loops in self._branches(step):
            if loops:
                summary, iterations = self._loop(path, record, steps)
                line = replace(line, note="; ".join(filter(None, (summary, line.note))))
                inside += iterations
            elif self._touched(steps, prefix):
                lines = self.steps(steps, prefix)
                inside += [Line(label, inside=lines)] if label else lines
            else:
                self._pass_over(steps, prefix)
        return replace(line, inside=inside)

    def frame(self, prefix: str) -> Mapping[str, StepRecord]:
        """The records of a frame by stepId."""
        if prefix not in self.frames:
            self.frames[prefix] = {record.step_id: record for record in self.records.frame(prefix)}
        return self.frames[prefix]

    def left_over(self) -> Iterator[Line]:
        """What was not shown in its place: inside step types that are not known here."""
        for name, record in self.frame("").items():
            if record.path not in self.placed:
                yield self._line(name, record.step_type, record.path, record)
        for path in self.waits:
            if _outermost(path) not in self.placed and path not in self.frame("") and self._is_open(path):
                yield self._line(path, "", path, None)
        for path, children in self.children.items():
            if _outermost(path) not in self.placed:
                yield from (_child(child) for child in children)

    def _line(self, name: str, called: str, path: str, record: StepRecord | None) -> Line:
        waits = self.waits.get(path, ())
        answers = map(_answered, waits)
        if record is None:
            waiting = self._is_open(path)
            awaited = [_awaited(wait) for wait in waits if wait.answer is None] if waiting else []
            state = "waiting" if waiting else self._unrecorded()
            return Line(name, called, state, "", ", ".join(filter(None, (*awaited, *answers))))
        attempts = f"{record.attempts} attempts" if record.attempts > 1 else ""
        notes = (attempts, *answers, _failure(record))
        took = "" if record.state is StepState.SKIPPED else duration_text(record.duration_ms)
        return Line(name, called, record.state.value, took, ", ".join(filter(None, notes)))

    def _unrecorded(self) -> str:
        """What is known of a step without a record."""
        state, error = self.execution.state, self.execution.error or {}
        if state is ExecutionState.FAILED and error.get("code") in _CRASHES:
            return "not ended"
        settled = ("success", "completed_with_errors", "failed", "rejected")
        return "not run" if state.value in settled else "not ended"

    def _branches(self, step: JsonObject) -> Iterator[tuple[str, Json, bool]]:
        """The lists that a step holds: a label where there are several that may run, the steps, and whether they run as
        iterations."""
        called, given = str(step.get("stepType", "")), step.get("input")
        if called not in self.registry:
            return
        step_type = self.registry[called]
        exclusive = step_type.conditions and not step_type.loops
        found = [(name, place, text) for name in step_type.branches for text, place in expand(name, given)]
        for name, place, text in found:
            label = text if len(found) > 1 and not exclusive and name != found[0][0] else ""
            yield label, at_place(given, place), name in step_type.loops

    def _touched(self, steps: Json, prefix: str) -> bool:
        """Whether anything in a list has begun."""
        for step in steps if isinstance(steps, list) else ():
            if not isinstance(step, Mapping):
                continue
            name = str(step.get("stepId", ""))
            if name in self.frame(prefix) or f"{prefix}{name}" in self.waits or f"{prefix}{name}" in self.children:
                return True
            if any(self._touched(inner, prefix) for _, inner, loops in self._branches(step) if not loops):
                return True
        return False

    def _pass_over(self, steps: Json, prefix: str) -> None:
        """Note steps that are not shown: nothing of them has begun."""
        for step in steps if isinstance(steps, list) else ():
            if isinstance(step, Mapping):
                self.placed.add(f"{prefix}{step.get('stepId', '')}")

    def _loop(self, path: str, record: StepRecord | None, steps: Json) -> tuple[str, list[Line]]:
        """A loop in few words, and the iterations that are shown."""
        counts = _counted(record)
        known = counts is not None and not counts.get("failed") and not self.records.everything
        states = {} if known else self.records.states(path)
        if counts is None:
            counts = Counter(state.value for state in states.values())
        most = 1 if _INDEX.search(path) else SHOWN_ITERATIONS
        failed = sorted(index for index, state in states.items() if state is StepState.FAILED)
        waiting, parents = self._indexes(path, self._open_waits()), self._indexes(path, self.children)
        shown = sorted({*failed[:most], *waiting[:most], *parents[:most]})
        if self.records.everything:
            shown = sorted({*states, *waiting, *parents})
        lines = [self._iteration(path, index, steps) for index in shown]
        if hidden := len({*failed} - {*shown}):
            lines.append(Line(f"… {hidden:,} more failed"))
        if hidden := len({*waiting, *parents} - {*shown, *failed}):
            lines.append(Line(f"… {hidden:,} more with waits or executions"))
        return (_summary(counts) if record is not None or states else ""), lines

    def _iteration(self, loop: str, index: int, steps: Json) -> Line:
        record = self.records.iteration(loop, index)
        prefix = f"{loop}[{index}]."
        inside = self.steps(steps, prefix)
        if record is None:
            return Line(f"[{index}]", state=self._unrecorded(), inside=inside)
        took = "" if record.state is StepState.SKIPPED else duration_text(record.duration_ms)
        return Line(f"[{index}]", "", record.state.value, took, "", inside)

    def _open_waits(self) -> Iterator[str]:
        return (path for path in self.waits if self._is_open(path))

    def _is_open(self, path: str) -> bool:
        return not self.execution.state.final and any(wait.answer is None for wait in self.waits.get(path, ()))

    def _indexes(self, loop: str, paths: Iterable[str]) -> list[int]:
        """The iterations of a loop in which one of the paths lies."""
        inside = f"{loop}["
        found = (_INDEX.match(path, len(loop)) for path in paths if path.startswith(inside))
        return sorted({int(index[1]) for index in found if index})


def print_tree(lines: Sequence[Line]) -> None:
    """Print a tree with aligned columns; states are coloured on a terminal, unless ``NO_COLOR`` is set."""
    rows = [[one_line(cell) for cell in row] for row in (("STEP", "TYPE", "STATUS", "TOOK", ""), *_rows(lines, ""))]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    for name, called, state, time, note in rows:
        cells = [text.ljust(width) for text, width in zip((name, called, state, time), widths, strict=True)]
        text = "  ".join([*cells, note]).rstrip()
        if coloured and state in _COLOURS:
            start = widths[0] + widths[1] + 4
            text = f"{text[:start]}\x1b[{_COLOURS[state]}m{state}\x1b[0m{text[start + len(state) :]}"
        write(f"{text}\n")


def _rows(lines: Sequence[Line], guide: str, first: bool = True) -> Iterator[tuple[str, str, str, str, str]]:
    """Each line with the guides that tie it to the one around it."""
    for at, line in enumerate(lines):
        last = at == len(lines) - 1
        branch, below = ("", "") if first else ("└─ ", "   ") if last else ("├─ ", "│  ")
        yield f"{guide}{branch}{line.name}", line.type, line.state, line.took, line.note
        yield from _rows(line.inside, f"{guide}{below}", False)


def duration_text(milliseconds: float) -> str:
    """How long something took, for people: ``7 ms``, ``1.2 s``, ``3 m 20 s``, ``2 h 5 m``, ``3 d 4 h``."""
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 59_950:
        return f"{milliseconds / 1000:.1f} s"
    seconds = round(milliseconds / 1000)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if days:
        return f"{days} d {hours % 24} h"
    return f"{hours} h {minutes % 60} m" if hours else f"{minutes} m {seconds % 60} s"


def took(execution: Execution) -> str:
    """How long an execution took from its start to its end; empty where it has not ended, or never began."""
    if execution.started_at is None or execution.finished_at is None:
        return ""
    return duration_text((execution.finished_at - execution.started_at) / timedelta(milliseconds=1))


def _child(child: Execution) -> Line:
    """An execution that the step above it started."""
    message = _cut(str((child.error or {}).get("message", "")))
    queue = f"queue {child.queue}" if child.queue else ""
    note = ", ".join(filter(None, (queue, message)))
    return Line(f"→ {child.id}", child.workflow or child.handler or "-", child.state.value, took(child), note)


def _counted(record: StepRecord | None) -> Mapping[str, int] | None:
    """How many iterations ended how, as the record of a loop that ended tells it."""
    output = record.output if record is not None else None
    if not isinstance(output, Mapping):
        return None
    counts = {state: output.get(key) for state, key in _OUTPUT_KEYS.items()}
    return {state: count for state, count in counts.items() if isinstance(count, int)} or None


_OUTPUT_KEYS: Final = {"success": "succeeded", "failed": "failed", "skipped": "skipped"}


def _summary(counts: Mapping[str, int]) -> str:
    """``1,000 iterations: 997 success, 3 failed``."""
    total = sum(counts.values())
    told = ", ".join(f"{count:,} {state}" for state, count in sorted(counts.items(), key=_by_state) if count)
    return f"{total:,} iteration{'' if total == 1 else 's'}{f': {told}' if told else ''}"


def _by_state(counted: tuple[str, int]) -> int:
    return [state.value for state in StepState].index(counted[0])


def _failure(record: StepRecord) -> str:
    """Why a step failed; where a step inside it did, which one."""
    error = record.error
    if not error:
        return ""
    where = error.get("path")
    if where not in (None, record.path):
        return f"in {where}"
    code, message = error.get("code"), _cut(str(error.get("message", "")))
    return f"{code}: {message}" if code else message


def _awaited(wait: Wait) -> str:
    until = "" if wait.until is None else f" until {write_instant(wait.until)}"
    match wait.kind:
        case "signal":
            return f"for the signal {wait.name!r}{until}"
        case "approval":
            return f"for an approval{until}"
        case "execution":
            return f"for the end of {wait.name}{until}"
        case _:
            return until.removeprefix(" ")


def _answered(wait: Wait) -> str:
    """What answered a wait, where a person or another program did."""
    if wait.answer is None or wait.kind not in ("signal", "approval"):
        return ""
    if wait.kind == "signal":
        return f"the signal {wait.name!r} came"
    decided = "approved" if wait.answer.get("approved") else "rejected"
    actor, reason = wait.answer.get("actor"), wait.answer.get("reason")
    return f"{decided}{f' by {actor}' if actor else ''}{f' ({reason})' if reason else ''}"


def _outermost(path: str) -> str:
    """The step outside of all loops that a path lies in."""
    found = _INDEX.search(path)
    return path if found is None else path[: found.start()]


def _cut(text: str) -> str:
    return text if len(text) <= _MESSAGE_CHARACTERS else f"{text[: _MESSAGE_CHARACTERS - 1]}…"
