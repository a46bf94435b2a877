"""``flo triggers``: what people see of triggers, and do with them."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from flo.engine import app
from flo.engine.commands import triggers_times
from flo.engine.commands.triggers import COMMANDS
from flo.engine.triggers import WantedTrigger
from flo.testing import FrozenClock

LOG = {"stepId": "a", "stepType": "core.log", "input": {"message": "hello"}}
NIGHTLY = {"name": "nightly", "type": "schedule", "config": {"schedule": {"cron": "30 2 * * *"}}}
BERLIN = ["--timezone", "Europe/Berlin"]
SPRING = "2027-03-27T00:00:00Z"


def workflow(*triggers: Any, **more: Any) -> dict[str, Any]:
    return {"name": "report", "steps": [LOG], "triggers": list(triggers), **more}


def schedule(**config: Any) -> dict[str, Any]:
    return {"type": "schedule", "config": {"schedule": config}}


@pytest.fixture
def stored(flo: Any, save: Any) -> Any:
    """Store the workflow ``report`` with these triggers."""

    def store(*triggers: Any, **more: Any) -> None:
        answer = flo("add", save(workflow(*triggers, **more)))
        assert answer.code == 0, answer.err

    return store


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_in_the_group_s_list_is_what_the_command_says_itself(name: str) -> None:
    command = COMMANDS[name].load()
    assert (command.name, command.get_short_help_str(limit=200)) == (name, COMMANDS[name].summary)


def test_next_prints_a_time_in_the_gap_in_the_zone_and_in_utc(flo: Any) -> None:
    """Case S01."""
    answer = flo("triggers", "next", "30 2 * * *", *BERLIN, "--from", SPRING, "-n", "2", "--json")
    assert answer.json == [
        {"local": "2027-03-27T02:30:00+01:00", "utc": "2027-03-27T01:30:00.000000Z"},
        {"local": "2027-03-28T03:00:00+02:00", "utc": "2027-03-28T01:00:00.000000Z"},
    ]
    told = flo("triggers", "next", "30 2 * * *", *BERLIN, "--from", SPRING, "-n", "2").out.splitlines()
    assert [line.split() for line in told] == [
        ["LOCAL", "UTC"],
        ["Sat", "2027-03-27T02:30:00+01:00", "CET", "2027-03-27T01:30:00.000000Z"],
        ["Sun", "2027-03-28T03:00:00+02:00", "CEST", "2027-03-28T01:00:00.000000Z"],
    ]


def test_an_interval_is_counted_from_the_instant_that_is_given(flo: Any) -> None:
    answer = flo("triggers", "next", "1h 5m", "--from", "2027-01-01T00:00:00+01:00", "-n", "2", "--json")
    assert [fire["utc"] for fire in answer.json] == ["2027-01-01T00:05:00.000000Z", "2027-01-01T01:10:00.000000Z"]


def test_an_expression_opens_no_store_and_imports_no_engine() -> None:
    code = (
        "import sys\nfrom flo import cli\n"
        "for command in ('next', 'explain'):\n"
        "    assert cli.call(['triggers', command, '@daily', '--store', 'postgresql://nobody@127.0.0.1:1/x']) == 0\n"
        "sys.exit([name for name in ('flo.engine.app', 'sqlite3', 'psycopg') if name in sys.modules] or 0)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("0 9 * * mon-fri", True),
        ("@dayly", True),
        ("65m", True),
        ("1h 30m", True),
        ("61 1", True),
        ("*", True),
        ("a 0 1 1 1", True),
        ("", True),
        ("report", False),
        ("report/nightly", False),
        ("monthly report/schedule", False),
    ],
)
def test_an_expression_is_told_from_a_name(text: str, meant: bool) -> None:
    assert triggers_times.is_expression(text) is meant


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["next", "61 * * * *"], ("minute", "'61'", "0 to 59")),
        (["explain", "0 0 * * mno"], ("day of week", "mon")),
        (["explain", "0 0 9 * * *"], ("6 fields", "'0 9 * * *'")),
        (["explain", "0 0 30 2 *"], ("day of month '30'", "1 to 29")),
        (["next", "@dayly"], ("'@daily'",)),
        (["next", "@daily", "--timezone", "CEST"], ("'CEST'", "'Europe/Berlin'")),
        (["next", "0s"], ("'0s'", "1s")),
        (["next", "@daily", "--from", "tomorrow"], ("'tomorrow' is no instant",)),
        (["next", "@daily", "--from", "9999-12-31T23:59:00Z"], ("years 1000 to 9000",)),
        (["next", "@daily", "-n", "0"], ("0 is not in the range",)),
        (["next", "reprot"], ("no trigger 'reprot'",)),
    ],
)
def test_a_wrong_schedule_names_what_came_and_the_nearest(
    arguments: list[str], said: tuple[str, ...], flo: Any
) -> None:
    answer = flo("triggers", *arguments)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("error: ")
    assert all(words in answer.err for words in said), answer.err


def test_explain_says_it_in_words_with_the_next_times_and_warns(flo: Any) -> None:
    answer = flo("triggers", "explain", "*/45 * * * *")
    sentence, header, *times = answer.out.splitlines()
    assert (answer.code, sentence, len(times)) == (0, "at minutes 0 and 45 of every hour", 3)
    assert header.split() == ["LOCAL", "UTC"]
    (warning,) = answer.err.splitlines()
    assert warning.startswith("warning: '*/45'")
    explained = flo("triggers", "explain", "*/45 * * * *", "--timezone", "asia/kolkata", "--json").json
    assert explained["timezone"] == "Asia/Kolkata"
    assert [f"warning: {caution}" for caution in explained["cautions"]] == [warning]
    assert {fire["local"][-6:] for fire in explained["next"]} == {"+05:30"}


def test_explain_warns_of_the_next_change_of_the_clock_that_a_fixed_time_meets() -> None:
    now, berlin = datetime(2027, 1, 1, tzinfo=UTC), ZoneInfo("Europe/Berlin")
    asked = triggers_times.of_expression("30 2 * * *", berlin, now, 3)
    cautions = " ".join(triggers_times.cautions_of(asked, FrozenClock(now)))
    assert "2027-03-28" in cautions
    later = triggers_times.cautions_of(asked, FrozenClock(datetime(2027, 4, 1, tzinfo=UTC)))
    assert "2027-03-28" not in " ".join(later)


@pytest.mark.parametrize(
    ("every", "words"),
    [("65m", "65 minutes"), ("90s", "90 seconds"), ("1h", "hour"), ("1d", "24 hours"), ("1500ms", "1.5 seconds")],
)
def test_an_interval_in_words_says_what_it_is_counted_from(every: str, words: str, flo: Any) -> None:
    answer = flo("triggers", "explain", every)
    assert answer.out.splitlines()[0] == f"every {words}, counted from the moment it is added"
    assert answer.err == ""


def test_a_trigger_is_shown_in_its_own_zone_unless_another_is_asked_for(flo: Any, stored: Any) -> None:
    stored(schedule(cron="30 2 * * *", timezone="Europe/Berlin"))
    start = ["--from", SPRING, "-n", "1", "--json"]
    utc = "2027-03-27T01:30:00.000000Z"
    assert flo("triggers", "next", "report", *start).json == [{"local": "2027-03-27T02:30:00+01:00", "utc": utc}]
    elsewhere = flo("triggers", "next", "report", *start, "--timezone", "Asia/Tokyo").json
    assert elsewhere == [{"local": "2027-03-27T10:30:00+09:00", "utc": utc}]
    assert flo("triggers", "explain", "report/schedule", "--json").json["timezone"] == "Europe/Berlin"


def test_the_list_of_times_ends_where_a_schedule_ends(flo: Any, stored: Any) -> None:
    stored(schedule(every="65m", startAt="2040-01-01T00:00:00Z", endAt="2040-01-01T02:00:00Z"))
    times = [fire["utc"] for fire in flo("triggers", "next", "report", "--json").json]
    assert times == ["2040-01-01T00:00:00.000000Z", "2040-01-01T01:05:00.000000Z"]
    assert "counted from 2040-01-01T00:00:00.000000Z" in flo("triggers", "explain", "report").out
    over = flo("triggers", "next", "report", "--from", "2041-01-01T00:00:00Z")
    assert (over.code, over.out, over.err) == (0, "", "it does not fire any more\n")


def test_what_fires_by_no_time_has_no_times_to_come(flo: Any, stored: Any) -> None:
    stored({"type": "manual"})
    answer = flo("triggers", "next", "report")
    assert answer.code == 1
    assert "'report/manual' is of type 'manual'" in answer.err


def test_add_says_how_each_trigger_of_the_workflow_stands(flo: Any, save: Any) -> None:
    event = {"type": "event", "config": {"event": {"workflow": "other"}}}
    daily = schedule(cron="0 0 1 1 *", startAt="2040-06-01T00:00:00Z")
    file = save(workflow({**NIGHTLY, "enabled": False}, daily, event, {"type": "manual"}))
    answer = flo("add", file)
    assert (answer.code, answer.out) == (0, "")
    assert answer.err.splitlines() == [
        "'report' is stored, version 1",
        "'report/event' fires when 'other' has finished; 'flo serve' runs it",
        "'report/manual' is fired by hand: 'flo triggers fire report/manual'",
        "'report/nightly' is off; 'flo triggers enable report/nightly' switches it on",
        "'report/schedule' fires next at 2041-01-01T00:00:00.000000Z; 'flo serve' runs it",
    ]
    names = ["report/event", "report/manual", "report/nightly", "report/schedule"]
    assert flo("add", file, "--json").json["triggers"] == names


def test_list_tells_what_fires_each_and_when(flo: Any, save: Any, shared_url: str) -> None:
    where = ["--store", shared_url]
    flo("add", save(workflow(NIGHTLY, schedule(every="65m", endAt="2020-01-01T00:00:00Z"))), *where)
    flo("add", save({"name": "other", "steps": [LOG]}), *where)
    assert flo("triggers", "list", "other", "--json", *where).json == []
    header, nightly, ended = flo("triggers", "list", *where).out.splitlines()
    assert header.split() == ["NAME", "TYPE", "WHEN", "ENABLED", "NEXT", "LAST"]
    assert nightly.split()[:9] == ["report/nightly", "schedule", "30", "2", "*", "*", "*", "UTC", "yes"]
    assert "T02:30:00.000000Z" in nightly
    assert ended.split() == ["report/schedule", "schedule", "every", "65m", "yes", "-", "-"]
    fired = flo("triggers", "fire", "nightly", "--json", *where).json
    one, _ = flo("triggers", "list", "report", "--json", *where).json
    assert one["last"] == {name: value for name, value in fired.items() if name in one["last"]}
    assert (one["last"]["outcome"], one["last"]["executionId"]) == ("fired", fired["executionId"])
    assert one["next"].endswith("T02:30:00.000000Z")
    assert list(one) == [
        "id", "workflow", "name", "type", "enabled", "declared", "revision", "config", "next", "last",
    ]  # fmt: skip


def test_without_triggers_there_is_nothing_on_standard_output(flo: Any) -> None:
    answer = flo("triggers", "list")
    assert (answer.code, answer.out) == (0, "")
    assert "there are no triggers" in answer.err
    assert flo("triggers", "list", "--json").out == "[]\n"
    assert flo("triggers", "list", "reprot").err == "error: no stored workflow 'reprot'\n"


@pytest.mark.parametrize("config", [{"cron": "of tomorrow"}, {"every": "65m", "graceSeconds": "of tomorrow"}])
def test_a_config_that_this_version_cannot_read_is_listed_all_the_same(config: Any, flo: Any, stored: Any) -> None:
    stored(NIGHTLY)
    with app.open() as engine:
        engine.store.triggers.add(engine.stored("report").id, WantedTrigger("strange", "schedule", config))
    nightly, strange = flo("triggers", "list", "--json").json
    assert nightly["next"] is not None
    assert (strange["config"], strange["next"]) == (config, None)
    assert flo("triggers", "list").code == 0
    assert flo("triggers", "show", "strange").err == "'report/strange' has no next fire\n"


def test_show_lists_what_was_skipped_and_why(flo: Any, sqlite_url: str) -> None:
    """Case S11: overlap; S10: misfire."""
    clock = FrozenClock(datetime(2027, 1, 1, tzinfo=UTC))
    with app.open(sqlite_url, clock=clock) as engine:
        engine.add(engine.load(workflow(schedule(cron="* * * * *", overlap="skip", misfire="skip"))))
        scheduler = engine.scheduler()
        for step in (timedelta(minutes=1), timedelta(minutes=1), timedelta(hours=1, seconds=30)):
            clock.forward(step)
            while scheduler.tick() == timedelta():
                pass
    shown = flo("triggers", "show", "report", "--store", sqlite_url, "--json").json
    missed, overlapped, fired = shown["firings"]
    assert (fired["outcome"], fired["reason"], fired["scheduledAt"]) == ("fired", None, "2027-01-01T00:01:00.000000Z")
    assert (overlapped["outcome"], overlapped["reason"]) == ("skipped", "overlap")
    assert (missed["reason"], missed["passed"], missed["since"]) == ("misfire", 60, "2027-01-01T00:03:00.000000Z")
    assert shown["last"] == missed
    assert len(shown["coming"]) == 5
    text = flo("triggers", "show", "report", "--store", sqlite_url, "--limit", "2").out
    assert "skipped  2027-01-01T00:02:00.000000Z" in text
    assert "misfire: 60 slots passed over, from 2027-01-01T00:03:00.000000Z on" in text
    assert fired["executionId"] not in text


def test_a_trigger_is_added_by_options_and_counts_from_now(flo: Any, save: Any, shared_url: str) -> None:
    where = ["--store", shared_url]
    flo("add", save(workflow()), *where)
    options = [
        "--name", "hourly", "--every", "65m", "--initial", '{"at": "<< initial.scheduledAt >>"}', "--misfire", "all",
        "--grace", "90m", "--overlap", "queue", "--jitter", "1.5", "--queue", "night", "--priority", "5",
        "--start-at", "2040-01-01T00:00:00Z", "--end-at", "2041-01-01T00:00:00Z",
    ]  # fmt: skip
    answer = flo("triggers", "add", "report", *options, *where)
    assert (answer.code, answer.out) == (0, "report/hourly\n"), answer.err
    assert answer.err == "'report/hourly' fires next at 2040-01-01T00:00:00.000000Z; 'flo serve' runs it\n"
    (added,) = flo("triggers", "list", "--json", *where).json
    assert (added["type"], added["enabled"], added["declared"]) == ("schedule", True, False)
    assert added["config"] == {
        "every": "65m",
        "initialData": {"at": "<< initial.scheduledAt >>"},
        "misfire": "all",
        "graceSeconds": 5400,
        "overlap": "queue",
        "jitterSeconds": 1.5,
        "queue": "night",
        "priority": 5,
        "startAt": "2040-01-01T00:00:00Z",
        "endAt": "2041-01-01T00:00:00Z",
    }
    twice = flo("triggers", "add", "report", "--name", "hourly", "--every", "2h", *where)
    assert twice.code == 1
    assert "there is a trigger 'report/hourly' already" in twice.err


def test_a_trigger_is_added_for_the_end_of_another_workflow_or_as_json(flo: Any, stored: Any) -> None:
    stored()
    after = ["--event-of", "other", "--status", "failed", "--status", "timed_out", "--disabled"]
    event = flo("triggers", "add", "report", *after, "--json").json
    assert (event["name"], event["type"], event["enabled"], event["next"]) == ("event", "event", False, None)
    assert event["config"] == {"workflow": "other", "status": ["failed", "timed_out"]}
    pasted = flo("triggers", "add", "report", "--file", "-", "--json", stdin=json.dumps(NIGHTLY)).json
    assert (pasted["name"], pasted["config"]) == ("nightly", NIGHTLY["config"]["schedule"])  # type: ignore[index]
    several = flo("triggers", "add", "report", "--file", "-", stdin=json.dumps([NIGHTLY]))
    assert (several.code, several.err) == (1, "error: standard input: a trigger is an object, a list came\n")


def test_what_an_added_schedule_may_surprise_with_is_told(flo: Any, stored: Any) -> None:
    stored()
    answer = flo("triggers", "add", "report", "--cron", "*/45 * * * *")
    assert answer.code == 0
    assert "warning: '*/45' in minute" in answer.err


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--cron", "61 * * * *", "--timezone", "CEST"], 3, ["config.schedule.cron: ", "config.schedule.timezone: "]),
        (["--every", "soon"], 3, ["config.schedule.every: 'soon' is no duration"]),
        (["--event-of", "report"], 3, ["config.event.workflow: "]),
        (["--event-of", "x", "--status", "sucess"], 3, ["config.event.status[0]: "]),
        (["--cron", "@daily", "--initial", "[]"], 3, ["config.schedule.initialData: "]),
        (["--cron", "@daily", "--initial", "{"], 1, ["--initial, line 1"]),
        ([], 1, ["give one of --cron, --every, --event-of and --file"]),
        (["--cron", "@daily", "--every", "1h"], 1, ["give one of --cron, --every, --event-of and --file"]),
        (["--event-of", "x", "--start-at", "y"], 1, ["--start-at goes with --cron or --every"]),
        (["--cron", "@daily", "--status", "failed"], 1, ["--status goes with --event-of"]),
        (["--file", "-", "--grace", "5"], 1, ["leave out --grace"]),
        (["--file", "-"], 1, ["standard input, line 1"]),
    ],
)
def test_a_trigger_that_means_nothing_is_not_added(
    options: list[str], code: int, said: list[str], flo: Any, stored: Any
) -> None:
    stored()
    answer = flo("triggers", "add", "report", *options)
    assert (answer.code, answer.out) == (code, ""), answer.err
    assert all(words in answer.err for words in said), answer.err
    assert flo("triggers", "list", "--json").json == []


def test_triggers_are_switched_off_on_and_removed(flo: Any, stored: Any) -> None:
    stored(NIGHTLY)
    flo("triggers", "add", "report", "--name", "yearly", "--cron", "@yearly")
    off = flo("triggers", "disable", "nightly", "report/yearly", "nightly")
    assert (off.code, off.out, off.err.count("\n")) == (0, "", 2)
    assert "'report/nightly' is off; 'flo triggers enable report/nightly' switches it on" in off.err
    assert [held["next"] for held in flo("triggers", "list", "--json").json] == [None, None]
    (on,) = flo("triggers", "enable", "yearly", "--json").json
    assert (on["enabled"], on["next"][4:]) == (True, "-01-01T00:00:00.000000Z")
    assert flo("triggers", "remove", "yearly").err == "'report/yearly' is removed\n"
    declared = flo("triggers", "remove", "nightly")
    assert declared.code == 1
    assert "the workflow's document declares it" in declared.err
    assert [held["name"] for held in flo("triggers", "list", "--json").json] == ["nightly"]


def test_of_several_names_none_is_switched_where_one_is_wrong(flo: Any, stored: Any) -> None:
    stored(NIGHTLY)
    answer = flo("triggers", "disable", "nightly", "report/nighlty")
    assert (answer.code, answer.err) == (1, "error: no trigger 'report/nighlty'; did you mean 'report/nightly'?\n")
    assert flo("triggers", "list", "--json").json[0]["enabled"] is True


def test_a_fire_by_hand_is_run_by_a_worker_with_what_was_given(flo: Any, save: Any, shared_url: str) -> None:
    where = ["--store", shared_url]
    manual = {"type": "manual", "config": {"manual": {"initialData": {"a": 1, "b": 2}}}}
    answered = {"stepId": "end", "stepType": "core.return", "input": {"sum": "<< initial.a + initial.b >>"}}
    flo("add", save(workflow(manual, steps=[answered])), *where)
    answer = flo("triggers", "fire", "report", "--input", '{"b": 40}', *where)
    assert (answer.code, "a worker will run it" in answer.err) == (0, True), answer.err
    assert flo("worker", "--drain", "--json", *where).json == {"success": 1}
    execution = flo("executions", "show", answer.out.strip(), "--json", *where).json
    assert execution["output"] == {"sum": 41}
    wrong = flo("triggers", "fire", "report", "--input", "[]", *where)
    assert (wrong.code, wrong.err) == (1, "error: --input: it must be an object, a list came\n")
