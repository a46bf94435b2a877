"""``acme.greet`` converts its input, and knows the time of the day."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from flo import StepFailed
from flo.testing import FrozenClock, run_step

from acme_greet.greetings import greet


@pytest.mark.parametrize(
    ("who", "at", "text"),
    [
        ({"name": "Ada"}, "2026-01-31T09:00:00Z", "good day Ada"),
        ({"name": "Ada", "title": "Dr."}, "2026-01-31T18:00:00+01:00", "good evening Dr. Ada"),
        ({"name": "Ada", "languages": ["de", "en"]}, "2026-01-31T09:00:00Z", "guten Tag Ada"),
    ],
)
def test_people_are_greeted_as_they_are_used_to(who: dict[str, Any], at: str, text: str) -> None:
    assert run_step(greet, {"who": who, "at": at}).output["text"] == text


def test_without_a_moment_it_is_now() -> None:
    evening = FrozenClock(datetime(2026, 1, 31, 20, tzinfo=UTC))
    result = run_step(greet, {"who": {"name": "Ada"}, "times": 2}, clock=evening)
    assert result.output == {"text": "good evening, good evening Ada", "language": "en", "reply-to": None}
    assert result.logs[0].message == "it is 20:00 for Ada"


@pytest.mark.parametrize(
    ("input", "said"),
    [
        ({"who": {"name": ""}}, "input.who.name: text with 0 characters came, expected at least 1 character"),
        ({"who": {"name": "Ada", "tilte": "Dr."}}, "input.who.tilte: unknown field 'tilte'; did you mean 'title'?"),
        ({"who": {"name": "Ada", "languages": ["es"]}}, 'input.who.languages[0]: "es" (text) came, expected "de"'),
        ({"who": {"name": "Ada"}, "times": 11}, "input.times: 11 came, expected at most 10"),
        ({"who": {"name": "Ada"}, "at": "at noon"}, 'input.at: "at noon" came'),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(input: dict[str, Any], said: str) -> None:
    with pytest.raises(StepFailed) as failure:
        run_step(greet, input)
    assert failure.value.code == "invalid_input"
    assert failure.value.message.startswith(said)
