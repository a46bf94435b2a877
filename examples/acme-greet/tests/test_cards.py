"""Cards are sent once, whatever happens, and nobody sees with what they are paid for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from flo import StepFailed
from flo.testing import FrozenClock, run_step, run_workflow

from acme_greet.cards import CARDS, send_card, take_number
from acme_greet.greetings import greet
from acme_greet.stamps import stamp

WORKFLOW = Path(__file__).parent.parent / "card.json"
CARD = {"to": "12 St James's Square\nLondon", "text": "good day"}


def office(folder: Path) -> dict[str, dict[str, str]]:
    return {"post-office": {"folder": str(folder), "token": "open sesame"}}


def test_a_card_that_is_sent_twice_is_one_card(tmp_path: Path) -> None:
    first = run_step(send_card, CARD, connections=office(tmp_path), idempotency_key="one")
    again = run_step(send_card, CARD, connections=office(tmp_path), idempotency_key="one", attempt=2)
    other = run_step(send_card, CARD, connections=office(tmp_path), idempotency_key="other")
    assert first.output == again.output != other.output
    assert len(list(tmp_path.glob("*.json"))) == 2
    assert [line.message for line in again.logs] == ["the post office has this card already"]
    row = first.store.get(CARDS, first.output["card"])
    assert row is not None
    assert row.value == {"to": CARD["to"], "execution": "test-execution"}


def test_a_closed_post_office_is_worth_another_attempt(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="closed") as failure:
        run_step(send_card, CARD, connections=office(tmp_path / "nowhere"))
    assert failure.value.retryable


def test_a_card_without_a_town_is_sent_with_a_warning(tmp_path: Path) -> None:
    result = run_step(send_card, {**CARD, "to": "somewhere"}, connections=office(tmp_path))
    assert result.success
    assert result.outcome.warnings == ("the address has no town: the card may come back",)


def test_a_connection_that_is_not_there_is_named() -> None:
    with pytest.raises(StepFailed, match="no connection 'post-office'"):
        run_step(send_card, CARD)


def test_numbers_are_counted_up() -> None:
    first = run_step(take_number, {"counter": "cards"})
    second = run_step(take_number, {"counter": "cards"}, store=first.store)
    assert (first.output["number"], second.output["number"]) == (1, 2)


def test_the_workflow_sends_a_numbered_card(tmp_path: Path) -> None:
    steps = [send_card, take_number, greet, stamp]
    result = run_workflow(WORKFLOW, steps=steps, connections=office(tmp_path), clock=FrozenClock())
    assert result.status == "success", result.error
    (sent,) = tmp_path.glob("*.json")
    assert json.loads(sent.read_text("utf-8"))["text"].startswith("good day Dr. Ada (")
    assert result.output == {"card": sent.stem, "text": "good day Dr. Ada"}
    shown = json.dumps([line.as_json() for line in result.logs])
    assert "open sesame" not in shown
