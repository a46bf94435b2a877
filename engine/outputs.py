"""What a body gave, in the shape in which it is seen, kept and returned."""

from __future__ import annotations

from typing import Final

from flo.engine.errors import StepFailed
from flo.engine.language.workflow import Step
from flo.engine.run import Frame
from flo.engine.step import StepType
from flo.engine.values import JsonObject, LazyList, dump, kind_of, plain, whole, whole_object

MAX_OUTPUT: Final = 64 * 1024 * 1024
"""A step's output may have so many characters as JSON."""

LOOP_ITEMS: Final = "items"
"""The field of a loop's output that is read from the records of its iterations, and not stored again."""


def object_given(step: Step, given: object) -> JsonObject:
    """The JSON object that a body gave. Raises ``StepFailed``."""
    output = plain(given, ("output",))
    if not isinstance(output, dict):
        what = f"{step.type} gave {kind_of(given)}, a step gives an object"
        raise StepFailed(what, code="invalid_output", retryable=False)
    return output


def stored_output(frame: Frame, step_type: StepType, output: JsonObject) -> tuple[JsonObject, int]:
    """What is stored of an output, secrets hidden, and how many characters that has as JSON. The results of a loop are
    stored already. Raises ``StepFailed`` for one that is too large."""
    kept = {
        key: frame.run.vault.hide(whole(value))
        for key, value in output.items()
        if not (step_type.loops and key == LOOP_ITEMS and isinstance(value, LazyList))
    }
    characters = len(dump(kept))
    if characters > MAX_OUTPUT:
        raise _too_large(characters)
    return kept, characters


def whole_output(step: Step, output: JsonObject) -> JsonObject:
    """The run's output, which outlives the run: results of loops in it are read once and for all."""
    read = whole_object(object_given(step, output))
    if (characters := len(dump(read))) > MAX_OUTPUT:
        raise _too_large(characters)
    return read


def _too_large(characters: int) -> StepFailed:
    message = f"the output has {characters:,} characters as JSON, the limit is {MAX_OUTPUT:,}"
    return StepFailed(message, code="too_large", retryable=False)
