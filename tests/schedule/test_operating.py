"""What people do with triggers, by their names."""

from __future__ import annotations

import pytest

from flo.engine.errors import InputInvalid

from .conftest import Clockwork, schedule


def test_triggers_are_found_by_every_name_that_means_one(clockwork: Clockwork) -> None:
    clockwork.add("one", schedule("a", cron="* * * * *"), schedule("b", cron="* * * * *"))
    clockwork.add("two", schedule("a", cron="* * * * *"))
    find = clockwork.engine.triggers.find
    assert find("one/a").full_name == "one/a"
    assert find("b").full_name == "one/b"
    assert find("two").full_name == "two/a"
    assert find(find("two").id).full_name == "two/a"
    with pytest.raises(InputInvalid, match="several are meant, name one of 'one/a', 'two/a'"):
        find("a")


def test_a_trigger_without_a_name_gets_one_that_is_free(clockwork: Clockwork) -> None:
    clockwork.add("flow", {"type": "schedule", "config": {"schedule": {"every": "1d"}}})
    added = [clockwork.engine.triggers.add("flow", {"type": "schedule", "config": {"schedule": {"every": every}}})
             for every in ("1h", "2h")]  # fmt: skip
    assert [one.full_name for one in added] == ["flow/schedule-2", "flow/schedule-3"]


def test_a_trigger_of_a_person_outlives_the_next_version_and_can_be_removed(clockwork: Clockwork) -> None:
    clockwork.add("flow", schedule("own", every="1d"))
    triggers = clockwork.engine.triggers
    added = triggers.add("flow", schedule("added", cron="* * * * *"))
    assert not added.declared
    clockwork.add("flow", schedule("own", every="1d"), description="changed")
    assert clockwork.at("12:01:00") == ["fired 12:01:00"]
    with pytest.raises(InputInvalid, match="declares it"):
        triggers.remove("flow/own")
    triggers.remove("added")
    assert clockwork.at("12:02:00") == []
