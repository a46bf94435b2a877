"""A step type that takes all there is, and the types of its input."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NewType, Optional

from msgspec import Meta

from flo.engine.step import Function, StepCall, StepType, step_type
from flo.engine.values import Json, JsonObject


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


Cents = NewType("Cents", int)


@dataclass(frozen=True)
class Person:
    """Somebody."""

    name: Annotated[str, Meta(min_length=2)]
    """What they are
    called."""

    key: str = field(default="k", metadata={"name": "x-api-key", "description": "How they come in."})


@dataclass
class Mail:
    address: str


@dataclass
class Phone:
    number: int


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)


@dataclass
class Everything:
    """All there is.

    And more.
    """

    who: Person
    reach: Mail | Phone
    at: datetime
    on: date | None = None
    lasting: timedelta | None = None
    price: Decimal = Decimal("1.5")
    cents: Cents = Cents(5)
    times: Annotated[int, Meta(ge=1, le=5)] = 1
    """How often."""
    color: Color = Color.RED
    mode: Literal["fast", "slow"] | None = None
    people: Annotated[list[Person], Meta(min_length=1)] | None = None
    scores: dict[str, float] = field(default_factory=dict)
    pair: tuple[int, str] = (1, "a")
    tags: set[str] = field(default_factory=set)
    anything: Json = None
    object: JsonObject = field(default_factory=dict)
    tree: Optional[Tree] = None  # noqa: UP045  # what older code says
    either: int | str | None = None


@step_type("test.everything")
def everything(call: StepCall, input: Everything) -> dict[str, Any]:
    """Take all there is."""
    return {"repr": repr(input), "name": input.who.name}


SMALLEST = {"who": {"name": "Ada"}, "reach": {"number": 1}, "at": "2026-01-31T09:00:00Z"}


def declare(function: Function, name: Any = "test.one", **settings: Any) -> StepType:
    return step_type(name, **settings)(function)
