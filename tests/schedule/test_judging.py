"""Which slots of a schedule are fired, and which were missed, at one look."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Any

import pytest

from flo.engine.schedule.judging import MOST, ON_TIME, Judgement, Passed, judge
from flo.engine.schedule.schedules import ScheduleInvalid, read_schedule, timing
from flo.engine.triggers import Trigger

NOON = datetime(2027, 1, 1, 12, tzinfo=UTC)


def at(minute: int, second: int = 0) -> datetime:
    return NOON + timedelta(minutes=minute, seconds=second)


def trigger(cursor: datetime = NOON, anchor: datetime = NOON, **config: Any) -> Trigger:
    return Trigger(
        "t", "w", "flow", "t", "schedule", config, True, True, 1, anchor, cursor, cursor, NOON, NOON
    )  # fmt: skip


def look(now: datetime, cursor: datetime = NOON, **config: Any) -> Judgement:
    one = trigger(cursor, **config)
    return judge(read_schedule(one.config), one, now)


MINUTELY = {"cron": "* * * * *"}


def test_nothing_is_due_before_the_first_slot() -> None:
    assert look(at(0, 59), **MINUTELY) == Judgement(None, [], at(1))


def test_a_slot_is_fired_at_its_moment_and_the_next_one_is_known() -> None:
    assert look(at(1), **MINUTELY) == Judgement(None, [at(1)], at(2))


def test_a_slot_that_is_dealt_with_a_little_late_was_not_missed() -> None:
    for misfire in ("once", "skip", "all"):
        assert look(at(1) + ON_TIME, misfire=misfire, **MINUTELY) == Judgement(None, [at(1)], at(2))


def test_every_slot_of_a_busy_moment_is_fired() -> None:
    found = look(NOON + timedelta(seconds=8), every="1s", misfire="skip")
    assert found == Judgement(None, [NOON + timedelta(seconds=n) for n in range(1, 9)], NOON + timedelta(seconds=9))


@pytest.mark.parametrize(
    ("misfire", "passed", "fired"),
    [
        ("once", Passed(at(1), at(9), 9), [at(10)]),
        ("skip", Passed(at(1), at(10), 10), []),
        ("all", None, [at(minute) for minute in range(1, 11)]),
    ],
)
def test_ten_minutes_of_sleep_under_each_misfire(misfire: str, passed: Passed | None, fired: list[datetime]) -> None:
    found = look(at(10, 30), misfire=misfire, **MINUTELY)
    assert found == Judgement(passed, fired, at(11))


def test_a_slot_at_the_moment_of_waking_is_the_one_catch_up() -> None:
    assert look(at(10), misfire="once", **MINUTELY) == Judgement(Passed(at(1), at(9), 9), [at(10)], at(11))
    assert look(at(10), misfire="skip", **MINUTELY) == Judgement(Passed(at(1), at(9), 9), [at(10)], at(11))


@pytest.mark.parametrize("misfire", ["once", "all"])
def test_what_is_later_than_the_grace_is_not_caught_up(misfire: str) -> None:
    hourly = {"cron": "0 * * * *", "misfire": misfire, "graceSeconds": 5400}
    late, in_time = timedelta(hours=5, minutes=31), timedelta(hours=5, minutes=30)
    hour = timedelta(hours=1)
    if misfire == "once":
        assert look(NOON + late, **hourly).fire == [NOON + 5 * hour]
    else:
        assert look(NOON + late, **hourly).fire == [NOON + 5 * hour]
        assert look(NOON + in_time, **hourly).fire == [NOON + 4 * hour, NOON + 5 * hour]
    over = {**hourly, "graceSeconds": 1200}
    assert look(NOON + in_time, **over) == Judgement(Passed(NOON + hour, NOON + 5 * hour, 5), [], NOON + 6 * hour)


def test_the_usual_grace_lets_a_weekly_slot_be_caught_up_and_no_monthly_one_of_a_month_ago() -> None:
    weekly = look(NOON + timedelta(days=6), cron="0 13 1 * *", cursor=NOON)
    assert weekly.fire == [at(60)]
    assert look(NOON + timedelta(days=9), cron="0 13 1 * *").fire == []


def test_of_very_many_slots_the_newest_are_caught_up_and_the_rest_is_one_record() -> None:
    now = NOON + timedelta(days=3, seconds=30)
    found = look(now, misfire="all", **MINUTELY)
    assert len(found.fire) == MOST
    assert found.fire[-1] == NOON + timedelta(days=3)
    assert found.passed == Passed(at(1), found.fire[0] - timedelta(minutes=1), None)
    seconds = look(NOON + timedelta(days=6), every="1s", misfire="all")
    assert seconds.fire == [NOON + timedelta(days=6, seconds=-n) for n in reversed(range(MOST))]
    assert seconds.passed == Passed(NOON + timedelta(seconds=1), NOON + timedelta(days=6, seconds=-MOST), None)


@pytest.mark.parametrize("misfire", ["once", "skip"])
def test_years_of_missed_seconds_are_judged_by_the_last_few(misfire: str) -> None:
    now = NOON + timedelta(days=3650)
    found = look(now, every="1s", misfire=misfire)
    assert found.look_at == now + timedelta(seconds=1)
    assert found.fire == ([now] if misfire == "once" else [now - timedelta(seconds=n) for n in range(10, -1, -1)])
    assert found.passed is not None
    assert found.passed.count is None


def test_rare_slots_are_found_however_long_ago_the_cursor_was() -> None:
    found = look(datetime(2036, 2, 29, 0, 0, 3, tzinfo=UTC), cron="0 0 29 2 *")
    assert found.fire == [datetime(2036, 2, 29, tzinfo=UTC)]
    assert found.passed == Passed(datetime(2028, 2, 29, tzinfo=UTC), datetime(2032, 2, 29, tzinfo=UTC), 2)
    assert found.look_at == datetime(2040, 2, 29, tzinfo=UTC)


def test_a_clock_that_went_back_fires_nothing_again() -> None:
    assert look(at(3), cursor=at(5), **MINUTELY) == Judgement(None, [], at(6))


def test_jitter_delays_a_slot_by_a_share_that_every_scheduler_finds() -> None:
    one = trigger(**MINUTELY, jitterSeconds=30)
    schedule = read_schedule(one.config)
    slots = [at(minute) for minute in range(1, 200)]
    delays = [schedule.due("t", slot) - slot for slot in slots]
    assert delays == [read_schedule(one.config).due("t", slot) - slot for slot in slots]
    assert all(timedelta() <= delay < timedelta(seconds=30) for delay in delays)
    assert max(delays) > timedelta(seconds=27) > timedelta(seconds=3) > min(delays)
    assert [schedule.due("other", slot) - slot for slot in slots] != delays
    first = schedule.due("t", at(1))
    assert judge(schedule, one, first - timedelta(microseconds=1)) == Judgement(None, [], first)
    assert judge(schedule, one, first) == Judgement(None, [at(1)], schedule.due("t", at(2)))


def test_slots_lie_between_start_and_end() -> None:
    within = {"startAt": "2027-01-01T13:02:00+01:00", "endAt": "2027-01-01T13:04:00+01:00"}
    assert look(at(1, 30), **within, **MINUTELY) == Judgement(None, [], at(2))
    assert look(at(2), **within, **MINUTELY).fire == [at(2)]
    assert look(at(4), cursor=at(3), **within, **MINUTELY) == Judgement(None, [at(4)], None)
    assert look(at(60), cursor=at(4), **within, **MINUTELY) == Judgement(None, [], None)


def test_an_interval_counts_from_where_it_began_whatever_was_fired_since() -> None:
    every = read_schedule({"every": "65m"})
    day = list(islice(every.slots(NOON, NOON), 22))
    assert day[0] == at(65)
    assert {later - earlier for earlier, later in pairwise(day)} == {timedelta(minutes=65)}
    assert day[-1] <= NOON + timedelta(days=1) < day[-1] + timedelta(minutes=65)
    half = next(every.slots(NOON + timedelta(hours=12), NOON))
    assert half in day
    assert next(every.slots(half, NOON)) == half + timedelta(minutes=65)


def test_an_interval_with_a_start_fires_at_the_start_and_counts_from_it() -> None:
    every = read_schedule({"every": "90m", "startAt": "2027-01-01T12:10:00Z"})
    assert list(islice(every.slots(NOON, NOON), 2)) == [at(10), at(100)]
    assert next(every.slots(at(10), NOON)) == at(100)
    assert next(every.slots(at(101), NOON)) == at(190)


def test_intervals_go_by_elapsed_time_over_a_change_of_the_clock() -> None:
    every = read_schedule({"every": "1d", "timezone": "Europe/Berlin"})
    before = datetime(2027, 3, 27, 12, tzinfo=UTC)
    assert list(islice(every.slots(before, before), 2)) == [before + timedelta(days=1), before + timedelta(days=2)]


@pytest.mark.parametrize(
    ("config", "field", "said"),
    [
        ({}, "", "either 'cron' or 'every', neither came"),
        ({"cron": "@daily", "every": "1d"}, "", "either 'cron' or 'every', both came"),
        ({"every": "often"}, "every", "'often' is no duration; write 30s, 65m, 12h, 1d"),
        ({"every": "500ms"}, "every", "the shortest interval is 1s"),
        ({"every": "0s"}, "every", "the shortest interval is 1s"),
        ({"every": "1h", "startAt": "2027-01-01"}, "startAt", "is no instant"),
        ({"every": "1h", "startAt": "2027-01-01T00:00:00"}, "startAt", "an offset"),
        ({"every": "1h", "endAt": "2027-02-30T00:00:00Z"}, "endAt", "is no instant"),
        ({"every": "1h", "endAt": "9999-12-31T23:59:59Z"}, "endAt", "the years 1970 to 9000"),
        ({"cron": "@daily", "startAt": "0001-01-01T00:00:00+14:00"}, "startAt", "is no instant"),
        ({"cron": "@daily", "startAt": "0001-01-02T00:00:00Z"}, "startAt", "is too far away"),
        (
            {"every": "1h", "startAt": "2027-01-02T00:00:00Z", "endAt": "2027-01-01T00:00:00Z"},
            "endAt",
            "it never fires",
        ),
    ],
)
def test_a_schedule_that_means_nothing_is_refused_with_its_field(config: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(ScheduleInvalid) as refused:
        read_schedule(config)
    [(where, what)] = refused.value.problems
    assert where == field
    assert said in what


def test_everything_that_is_wrong_with_a_schedule_is_told_at_once() -> None:
    with pytest.raises(ScheduleInvalid) as refused:
        read_schedule({"cron": "61 * * * *", "timezone": "CEST", "startAt": "soon", "endAt": "later"})
    assert [field for field, _ in refused.value.problems] == ["cron", "timezone", "startAt", "endAt"]


def test_only_what_says_when_it_fires_is_timing() -> None:
    plain = {"cron": "@daily", "timezone": "Europe/Berlin"}
    assert timing({**plain, "misfire": "all", "initialData": {"a": 1}, "queue": "q"}) == timing(plain)
    assert timing({**plain, "timezone": "UTC"}) != timing(plain)
    assert timing({"every": "65m"}) != timing({"every": "64m"})


def test_jitter_that_is_longer_than_the_period_loses_no_slot_of_a_scheduler_that_looks_all_the_time() -> None:
    config = {**MINUTELY, "jitterSeconds": 300, "misfire": "skip"}
    cursor, fired = NOON, []
    for second in range(40 * 60):
        found = look(NOON + timedelta(seconds=second), cursor, **config)
        assert found.passed is None
        fired += found.fire
        cursor = fired[-1] if fired else NOON
    assert fired == [at(minute) for minute in range(1, len(fired) + 1)]
    assert len(fired) >= 34


@pytest.mark.parametrize("every", ["800d", "30000d"])
def test_an_interval_of_years_is_judged_like_any_other(every: str) -> None:
    found = look(NOON + timedelta(days=1), every=every)
    assert found.fire == []
    assert found.look_at == NOON + timedelta(days=int(every[:-1]))
    later = look(NOON + timedelta(days=801), every=every)
    assert later.fire == ([NOON + timedelta(days=800)] if every == "800d" else [])
