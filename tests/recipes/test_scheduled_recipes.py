"""The dispatcher and the recovery by their schedules, and what the page about schedules shows."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flo.engine import app
from flo.engine.app import Flo
from flo.engine.schedule.crontab import parse_cron
from flo.engine.stores.filters import EVERY
from flo.engine.values import Json
from flo.testing import FrozenClock

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "schedules.md").read_text(encoding="utf-8")
NOON = datetime(2027, 1, 1, 12, tzinfo=UTC)
DISPATCHER, RECOVERY = "async-queue-dispatcher", "stale-claim-recovery"

Recipe = Callable[[str], Path]


@pytest.fixture
def clock() -> FrozenClock:
    """Half a minute before the first slot."""
    return FrozenClock(NOON - timedelta(seconds=30))


@pytest.fixture
def engine(store_url: str, clock: FrozenClock) -> Iterator[Flo]:
    with app.open(store_url, clock=clock) as opened:
        yield opened


@pytest.fixture
def scheduled(engine: Flo, recipe: Recipe) -> Flo:
    """An engine in which both recipes are stored, as they ship."""
    engine.add(recipe(DISPATCHER))
    engine.add(recipe(RECOVERY))
    return engine


def serve(engine: Flo) -> None:
    """What ``flo serve`` does at one moment: fire what is due, run what is enqueued."""
    scheduler = engine.scheduler()
    while scheduler.tick() == timedelta():
        pass
    engine.worker().run(threading.Event(), drain=True)


def statuses(engine: Flo) -> Counter[str]:
    rows = engine.data.query("pending_ops", EVERY, limit=100).rows
    return Counter(row.value["status"] for row in rows)  # type: ignore[index,call-overload,misc]


def fired(engine: Flo, workflow: str) -> list[int]:
    """The minutes after noon for which it was fired, the first one first."""
    firings = [one for one in reversed(engine.triggers.firings(workflow)) if one.outcome == "fired"]
    return [(one.scheduled_at - NOON) // timedelta(minutes=1) for one in firings if one.scheduled_at is not None]


def test_the_schedules_of_the_recipes_drain_the_queue_and_recover_what_died(scheduled: Flo, clock: FrozenClock) -> None:
    """Ten rows a minute; the row of the dead run is old enough at the second slot of the recovery."""
    entries: list[tuple[str, Json]] = [(f"op-{number:02}", {"status": "pending"}) for number in range(26)]
    scheduled.data.set_many("pending_ops", entries)
    scheduled.data.claim("pending_ops", EVERY, (), limit=1, holder="a dead run", changes=())
    serve(scheduled)
    assert statuses(scheduled) == {"pending": 25, "in_flight": 1}

    clock.time = NOON
    for done in (10, 20, 25, 25, 25, 26):
        serve(scheduled)
        assert statuses(scheduled)["done"] == done
        clock.forward(timedelta(minutes=1))
    assert fired(scheduled, DISPATCHER) == [0, 1, 2, 3, 4, 5]
    assert fired(scheduled, RECOVERY) == [0, 5]
    runs = scheduled.executions.list(workflow=RECOVERY)
    assert {(run.trigger, run.input["scheduledAt"]) for run in runs} == {
        ("schedule", "2027-01-01T12:00:00.000000Z"),
        ("schedule", "2027-01-01T12:05:00.000000Z"),
    }


@pytest.mark.parametrize("store_url", ["memory"], indirect=True)
def test_after_sleep_the_dispatcher_runs_once_at_once_and_the_recovery_waits_for_its_slot(
    scheduled: Flo, clock: FrozenClock
) -> None:
    """The rows have waited long enough; claims are old without anybody having died."""
    clock.time = NOON + timedelta(hours=8, minutes=6, seconds=30)
    serve(scheduled)
    assert fired(scheduled, DISPATCHER) == [486]
    assert fired(scheduled, RECOVERY) == []
    for minute in (487, 488, 489, 490):
        clock.time = NOON + timedelta(minutes=minute)
        serve(scheduled)
    assert fired(scheduled, DISPATCHER) == [486, 487, 488, 489, 490]
    assert fired(scheduled, RECOVERY) == [490]


@pytest.mark.parametrize("store_url", ["memory"], indirect=True)
def test_the_example_on_the_page_fires_at_six_in_berlin_with_the_slot_of_the_day_before(
    engine: Flo, clock: FrozenClock
) -> None:
    (shown,) = re.findall(r"^```json\n(\{\n.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert engine.check(shown).warnings == ()
    engine.add(json.loads(shown))
    clock.time = datetime(2027, 1, 2, 5, tzinfo=UTC)
    serve(engine)
    (run,) = engine.executions.list()
    (line,) = engine.executions.lines(run.id)
    assert line.message == "from 2027-01-01T05:00:00.000000Z to 2027-01-02T05:00:00.000000Z"


@pytest.mark.parametrize("kind", ["Schedules", "Events"])
def test_the_page_names_every_field_of_a_trigger_and_its_default(kind: str) -> None:
    schema: Any = json.loads((ROOT / "schemas" / "workflow.schema.json").read_text(encoding="utf-8"))
    definitions = schema["$defs"]
    table = re.findall(r"^\| (`[^|]*) \| ([^|]*)\|", section(kind), re.MULTILINE)
    told = {name: default for names, default in table for name in re.findall(r"`([^`]+)`", names)}
    fields = definitions[kind.lower().removesuffix("s")]["properties"]
    assert told.keys() == fields.keys()
    for name, field in fields.items():
        if not isinstance(default := field.get("default"), list | None):
            assert json.dumps(default) in told[name], name


def test_every_expression_in_the_table_of_the_page_means_something() -> None:
    cells = re.findall(r"^\| ([^|]*) \| [^|]* \|$", section("Cron").partition("| expression |")[2], re.MULTILINE)
    expressions = [expression for cell in cells for expression in re.findall("`([^`]+)`", cell)]
    assert len(expressions) > 15
    for expression in expressions:
        parse_cron(expression)


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## )", PAGE, re.DOTALL | re.MULTILINE)
    assert found, title
    return found[1]
