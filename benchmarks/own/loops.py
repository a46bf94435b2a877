"""flo's loops: what a step costs in one, and what a long one needs."""

from __future__ import annotations

from typing import Final

from benchmarks.contestant import memory_bytes
from flo.engine import app
from flo.engine.values import Json, JsonObject

MESSAGE: Final = "working on << $item.key >>: << $item.value.payload >>"


class Contestant:
    """An engine over one database."""

    def __init__(self, url: str) -> None:
        self._engine = app.open(url)
        self._rows, self._numbers = self._engine.load(_loop(MESSAGE)), self._engine.load(_loop("item << $item >>"))
        self._items: list[Json] = []

    def prepare(self, count: int) -> None:
        """Make rows to go through."""
        self._items = rows(count)

    def loop(self) -> str:
        """Go through the rows; gives how the run ended."""
        return self._engine.run(self._rows, {"items": self._items}).state.value

    def prepare_numbers(self, count: int) -> int:
        """Make numbers to go through; gives the memory that this process then has."""
        self._items = list(range(count))
        return memory_bytes()

    def loop_numbers(self) -> str:
        """Go through the numbers; gives how the run ended."""
        return self._engine.run(self._numbers, {"items": self._items}).state.value

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()


def _loop(message: str) -> JsonObject:
    step: JsonObject = {"stepId": "say", "stepType": "core.log", "input": {"message": message}}
    loop: JsonObject = {"items": "<< initial.items >>", "steps": [step]}
    return {"steps": [{"stepId": "each", "stepType": "core.for-each", "input": loop}]}


def rows(count: int) -> list[Json]:
    """As a claim gives them, without what the loop does not look at."""
    return [{"key": f"row-{number}", "value": {"payload": {"number": number}}} for number in range(count)]
