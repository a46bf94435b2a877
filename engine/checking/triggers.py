"""What a document says of its triggers: checked, and made into what is wanted of the store."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from flo.engine.checking.document import Document
from flo.engine.checking.fitting import misfits
from flo.engine.checking.inputs import marks_of
from flo.engine.checking.openness import Open, OpenObject, opened
from flo.engine.checking.problems import Report
from flo.engine.executions import ExecutionState
from flo.engine.schedule.explaining import cautions
from flo.engine.schedule.schedules import Schedule, ScheduleInvalid, read_schedule, timing
from flo.engine.triggers import KINDS, Kind, WantedTrigger
from flo.engine.values import Json, JsonObject, Place

ENDS: Final = tuple(state.value for state in ExecutionState if state.final and state is not ExecutionState.REJECTED)
"""How an execution that an event trigger waits for may end. One that was rejected never ran."""

_MINOR: Final = frozenset({"timezone", "misfire", "graceSeconds", "overlap", "jitterSeconds", "status", "initialData"})
"""Fields without which the others can still be checked."""

_ADDED: Final[Mapping[Kind, Sequence[str]]] = {"schedule": ("scheduledAt",), "event": ("event",)}
"""What a fire adds to ``initial``."""

CompileEarly = Callable[[Any, Place, Report], object]


def check_triggers(document: Document, report: Report, compile_early: CompileEarly) -> tuple[WantedTrigger, ...]:
    """Check what the envelope left open of each trigger; gives those that can be made sense of.

    ``compile_early`` compiles a template that is resolved before the run begins.
    """
    triggers = document.meaning.get("triggers")
    wanted: list[WantedTrigger] = []
    for at, raw in enumerate(triggers if isinstance(triggers, list) else ()):
        if isinstance(raw, Mapping) and raw.get("type") in KINDS:
            found = check_trigger(raw, ("triggers", at), document.meaning, report, compile_early)
            name = found.name or usual_name(found.kind, {other.name for other in wanted})
            if any(name == other.name for other in wanted):
                report.error(("triggers", at, "name"), f"there is another trigger {name!r}; each has a name of its own")
            wanted.append(replace(found, name=name))
    return tuple(wanted)


def check_trigger(
    raw: JsonObject, place: Place, workflow: JsonObject, report: Report, compile_early: CompileEarly
) -> WantedTrigger:
    """Check one trigger of ``workflow``, at ``place``; its name is empty where it has none."""
    kind: Kind = raw["type"]  # type: ignore[assignment]  # one of them, as the envelope says
    configs = raw.get("config", {})
    configs = configs if isinstance(configs, Mapping) else {}
    for other in configs.keys() - {kind}:
        what = f"this is of triggers of type {other!r}, this one is of type {kind!r}"
        report.error((*place, "config", other), what)
    inside = (*place, "config", kind)
    if kind == "event" and kind not in configs:
        report.error(inside, "'workflow' is required: the name of the workflow whose executions it waits for")
    config, sound = _sound(configs.get(kind, {}), inside, report)
    enabled, name = raw.get("enabled", True), raw.get("name", "")
    wanted = WantedTrigger(str(name), kind, config, enabled is not False)
    _check_templates(kind, config, inside, workflow, report, compile_early)
    if kind == "schedule" and sound:
        return _schedule(wanted, inside, workflow, report)
    if kind == "event" and sound:
        return _event(wanted, inside, workflow, report)
    return wanted


def _sound(config: Json, place: Place, report: Report) -> tuple[JsonObject, bool]:
    """The fields that the envelope found nothing wrong with, and whether the rest of them can be made sense of."""
    if not isinstance(config, Mapping):
        return {}, False
    wrong = [
        held[len(place) :] for held, _, severity in report.found if severity == "error" and held[: len(place)] == place
    ]
    unsound = {inside[0] for inside in wrong if inside}
    sound = {name: value for name, value in config.items() if name not in unsound}
    return sound, () not in wrong and unsound <= _MINOR


def usual_name(kind: Kind, taken: Container[str]) -> str:
    """The name of a trigger that has none: its type, then with a number."""
    return next(name for name in _numbered(kind) if name not in taken)


def _numbered(kind: str) -> Iterator[str]:
    yield kind
    number = 2
    while True:
        yield f"{kind}-{number}"
        number += 1


def _schedule(wanted: WantedTrigger, place: Place, workflow: JsonObject, report: Report) -> WantedTrigger:
    try:
        schedule = read_schedule(wanted.config)
    except ScheduleInvalid as invalid:
        for field, what in invalid.problems:
            report.error((*place, field) if field else place, what)
        return wanted
    if schedule.cron is not None:
        for what in cautions(schedule.cron, schedule.zone):
            report.warn((*place, "cron"), what)
    _check_overlap(schedule, place, workflow, report)
    return replace(wanted, timing=timing(wanted.config))


def _check_overlap(schedule: Schedule, place: Place, workflow: JsonObject, report: Report) -> None:
    options = workflow.get("options")
    options = options if isinstance(options, Mapping) else {}
    own = "concurrencyKey" in options or options.get("maxConcurrent", 1) != 1
    if schedule.overlap == "queue" and (own or ("maxConcurrent" in options and options.get("whenFull") == "reject")):
        report.error(
            (*place, "overlap"),
            "'queue' runs one after the other by a concurrency key, and the workflow's options have a limit of their"
            " own; leave 'overlap' out, or let the options be 'maxConcurrent': 1",
        )


def _event(wanted: WantedTrigger, place: Place, workflow: JsonObject, report: Report) -> WantedTrigger:
    awaits = wanted.config.get("workflow")
    if not isinstance(awaits, str):
        return wanted
    if awaits in (workflow.get("name"), workflow.get("id")):
        report.error((*place, "workflow"), "it waits for the end of its own workflow, and would never come to an end")
    named = wanted.config.get("status", ENDS)
    states = {ExecutionState(name) for name in named if name in ENDS} if isinstance(named, Sequence) else set()
    return replace(wanted, awaits=awaits, states=frozenset(states))


def _check_templates(
    kind: Kind,
    config: JsonObject,
    place: Place,
    workflow: JsonObject,
    report: Report,
    compile_early: CompileEarly,
) -> None:
    for name in ("initialData", "idempotencyKey"):
        if name in config:
            compile_early(config[name], (*place, name), report)
            if name == "initialData":
                _check_data(kind, config[name], (*place, name), workflow, report)


def _check_data(kind: Kind, data: Any, place: Place, workflow: JsonObject, report: Report) -> None:
    """Check what is known now of what a fire will give; what it adds itself may be anything."""
    if not isinstance(data, Mapping):
        if isinstance(data, str) and marks_of(data) != "lone":
            report.error(place, "a text came, expected an object, or a template that gives one")
        return
    schema, initial = workflow.get("inputSchema"), workflow.get("initial", {})
    if kind == "webhook" or not isinstance(schema, Mapping) or not isinstance(initial, Mapping) or report.failed:
        return
    added = {name: Open() for name in _ADDED.get(kind, ())}
    given = OpenObject({**initial, **opened(data, marks_of, {}), **added})
    for violation in misfits(schema, given):
        shown = violation.place if violation.place and violation.place[0] in data else ()
        report.error((*place, *shown), f"it does not fit inputSchema: {violation.message}")
