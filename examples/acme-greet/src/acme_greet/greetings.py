"""``acme.greet``: an input with objects in it, from which its JSON Schema is derived."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Annotated, Literal

from flo import StepCall, step_type
from msgspec import Meta

Language = Literal["en", "de", "fr"]

_DAY = {"en": "good day", "de": "guten Tag", "fr": "bonjour"}
_EVENING = {"en": "good evening", "de": "guten Abend", "fr": "bonsoir"}


class Title(Enum):
    """How somebody is addressed."""

    DOCTOR = "Dr."
    PROFESSOR = "Prof."


@dataclass(frozen=True)
class Person:
    """Somebody to greet."""

    name: Annotated[str, Meta(min_length=1)]
    """What they are called."""

    title: Title | None = None
    """How they are addressed."""

    languages: list[Language] = field(default_factory=list)
    """What they understand, best first; English where nothing is said."""


@dataclass(frozen=True)
class Greeting:
    """Whom to greet, and when."""

    who: Person

    times: Annotated[int, Meta(ge=1, le=10)] = 1
    """How often."""

    at: datetime | None = None
    """The moment of the greeting, with its zone; now, where nothing is said."""

    reply_to: str | None = field(default=None, metadata={"name": "reply-to", "description": "Who is to be answered."})


@dataclass(frozen=True)
class Greeted:
    text: str
    """What is to be said."""

    language: Language
    """The language it is in."""

    reply_to: str | None = field(default=None, metadata={"name": "reply-to"})


@step_type("acme.greet", touches=False)
def greet(call: StepCall, input: Greeting) -> Greeted:
    """Greet somebody in a language that they understand."""
    language: Language = input.who.languages[0] if input.who.languages else "en"
    moment = input.at or call.clock.now()
    hello = (_EVENING if moment.hour >= 18 else _DAY)[language]
    title = f"{input.who.title.value} " if input.who.title else ""
    call.log("debug", f"it is {moment:%H:%M} for {input.who.name}")
    return Greeted(", ".join([hello] * input.times) + f" {title}{input.who.name}", language, input.reply_to)
