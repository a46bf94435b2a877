"""``acme.stamp``: computes for as long as it takes, in a process of its own that its timeout can end."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from typing import Annotated

from flo import StepCall, step_type
from msgspec import Meta


@dataclass(frozen=True)
class Work:
    """What is to be stamped."""

    text: str

    bits: Annotated[int, Meta(ge=0, le=256)] = 12
    """So many bits of the hash are zero: each doubles the work."""


@dataclass(frozen=True)
class Stamp:
    nonce: int
    """The number that makes it so."""

    hash: str


@step_type("acme.stamp", isolated=True, touches=False)
def stamp(call: StepCall, input: Work) -> Stamp:
    """Find a number that makes the hash of a text begin with zeros.

    Nothing in here looks at the clock or at `call.cancelled`. As an isolated step it needs not: when its timeout is
    over, or its run is cancelled, the process that it runs in is ended.
    """
    call.log("debug", f"looking for {input.bits} bits")
    for nonce in count():
        found = sha256(f"{nonce}:{input.text}".encode()).digest()
        if int.from_bytes(found) >> (256 - input.bits) == 0:
            return Stamp(nonce, found.hex())
    raise AssertionError("there is always another number")
