"""The results of a loop's iterations: small ones kept in memory, all of them in the store."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from typing import Final

from flo.engine.executions import StepRecord, StepState
from flo.engine.past import Past
from flo.engine.values import Json, JsonObject, LazyList

KEPT_CHARACTERS: Final = 256 * 1024
"""Results of a loop up to this size are kept in memory too; larger ones lie in the store alone."""

_BESIDES: Final = 64
"""What is kept of a result besides its output counts as so many characters."""

PAGE: Final = 200


class Results(LazyList):
    """The results of a loop's iterations, in input order: ``{index, status, output, error?}``."""

    def __init__(self, execution_id: str, path: str, past: Past, unhide: Callable[[Json], Json]) -> None:
        """``unhide`` puts the secrets back into what was stored."""
        self._execution_id, self._path = execution_id, path
        self._past, self._unhide = past, unhide
        self._kept: dict[int, tuple[StepState, str, JsonObject | None]] | None = {}
        self._characters = 0
        self._length = 0
        self._lock = threading.Lock()
        self._page: tuple[int, Sequence[Json]] = (0, ())

    def add(self, index: int, record: StepRecord) -> None:
        """Take how one iteration ended, its output written as JSON."""
        assert record.output_text is not None
        with self._lock:
            self._length += 1
            self._characters += len(record.output_text) + _BESIDES
            if self._characters > KEPT_CHARACTERS:
                self._kept = None
            if self._kept is not None:
                self._kept[index] = record.state, record.output_text, record.error

    def stored(self, count: int) -> None:
        """Count results that an earlier delivery stored."""
        with self._lock:
            self._length += count
            if count:
                self._kept = None

    @property
    def kept(self) -> bool:
        """Whether they are all in memory: else their records have to be stored before somebody refers to them."""
        return self._kept is not None

    def __len__(self) -> int:
        return self._length

    def item(self, index: int) -> Json:
        if self._kept is not None:
            state, text, error = self._kept[index]
            return self._unhide(_result(index, state, json.loads(text), error))
        start, page = self._page
        if not start <= index < start + len(page):
            start, page = self._page = self._read(index - index % PAGE)
        return page[index - start]

    def _read(self, start: int) -> tuple[int, Sequence[Json]]:
        records = self._past.iterations(self._execution_id, self._path, start=start, limit=PAGE)
        return start, [
            self._unhide(_result(record.index, record.state, record.output, record.error)) for record in records
        ]


def _result(index: int | None, state: StepState, output: Json, error: JsonObject | None) -> JsonObject:
    """One iteration's result, as a loop's ``items`` show it."""
    result: dict[str, Json] = {"index": index, "status": state.value, "output": output}
    if error is not None:
        result["error"] = error
    return result
