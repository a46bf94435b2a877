"""``acme.send-card`` acts outside the engine, once, with a secret. ``acme.take-number`` counts in the store."""

from __future__ import annotations

import hmac
import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from flo import Outcome, StepCall, StepFailed, step_type
from flo.engine.stores.changes import parse_changes
from flo.engine.stores.filters import EVERY

CARDS = "acme.cards"
COUNTERS = "acme.counters"


@dataclass(frozen=True)
class Card:
    """A card to be sent."""

    to: str
    """The street and the town, a line each."""

    text: str
    """What is written on it."""


@dataclass(frozen=True)
class Sent:
    card: str
    """The number under which the post office knows it."""

    stamp: str
    """What shows that it was paid for."""


@step_type("acme.send-card")
def send_card(call: StepCall, input: Card) -> Sent | Outcome:
    """Send a card by the post office of the connection `post-office`.

    The connection has `folder`, where the post office takes cards from, and `token`, with which they are paid for. The
    idempotency key names the card: a step that is run again, after a crash or a retry, sends no second one.
    """
    office = call.secrets.connection("post-office")
    folder = Path(str(office["folder"]))
    if not folder.is_dir():
        raise StepFailed("the post office is closed", code="post_office_closed", retryable=True)
    number = sha256(call.idempotency_key.encode()).hexdigest()[:16]
    stamp = hmac.new(str(office["token"]).encode(), f"{number}\n{input.text}".encode(), sha256).hexdigest()
    card = folder / f"{number}.json"
    if card.exists():
        call.log("info", "the post office has this card already", {"card": number})
    else:
        draft = card.with_suffix(".part")
        draft.write_text(json.dumps({"to": input.to, "text": input.text, "stamp": stamp}), encoding="utf-8")
        draft.rename(card)
    call.store.set(CARDS, number, {"to": input.to, "execution": call.execution_id})
    sent = Sent(number, stamp)
    if len(input.to.splitlines()) < 2:
        return Outcome(asdict(sent), warnings=["the address has no town: the card may come back"])
    return sent


@step_type(
    "acme.take-number",
    schema={
        "type": "object",
        "properties": {"counter": {"type": "string", "description": "The name of the counter.", "minLength": 1}},
        "required": ["counter"],
        "additionalProperties": False,
    },
    output={
        "type": "object",
        "properties": {"number": {"type": "integer", "description": "A number that nobody else has."}},
        "required": ["number"],
    },
    example={"counter": "cards"},
    transactional=True,
)
def take_number(call: StepCall, input: dict[str, Any]) -> dict[str, Any]:
    """Take the next number of a counter.

    It does nothing but call the store, and is `transactional`: the number is taken together with the record that the
    step ended, or not at all.
    """
    increment = parse_changes([{"field": "next", "operation": "increment", "value": 1}])
    updated = call.store.update(COUNTERS, input["counter"], EVERY, increment, upsert=True)
    value: Any = None if updated.row is None else updated.row.value
    return {"number": value["next"]}
