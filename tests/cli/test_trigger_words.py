"""What fires a trigger, and why it did not, in a few words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from flo.engine.commands.trigger_words import when, why_not
from flo.engine.triggers import Firing, Trigger


@pytest.mark.parametrize(
    ("kind", "config", "words"),
    [
        ("schedule", {"every": "65m"}, "every 65m"),
        ("schedule", {"cron": "@daily", "timezone": "Asia/Tokyo"}, "@daily Asia/Tokyo"),
        ("event", {"workflow": "x", "status": ["failed", "timed_out"]}, "when 'x' has ended as failed, timed_out"),
        ("webhook", {"path": "/in"}, "POST /in"),
        ("manual", {}, "by hand"),
    ],
)
def test_what_fires_a_trigger_is_said_in_a_few_words(kind: Any, config: Any, words: str) -> None:
    now = datetime(2027, 1, 1, tzinfo=UTC)
    assert when(Trigger("1", "2", "w", "n", kind, config, True, True, 1, now, now, None, now, now)) == words


def test_why_a_slot_was_not_fired_is_said_in_a_few_words() -> None:
    now = datetime(2027, 1, 1, tzinfo=UTC)
    failed = Firing("1", "s", "failed", now, error={"code": "refused", "message": "boom"})
    one = Firing("1", "s", "skipped", now, reason="misfire", passed=1, since=now)
    many = Firing("1", "s", "skipped", now, reason="misfire", since=now)
    assert (why_not(failed), why_not(Firing("1", "s", "fired", now))) == ("boom", "")
    assert why_not(one) == "misfire: 1 slot passed over, from 2027-01-01T00:00:00.000000Z on"
    assert why_not(many).startswith("misfire: more slots than were counted passed over, from 2027")
