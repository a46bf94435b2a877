"""What a body gave, in the shape in which it is seen, kept and returned."""

from __future__ import annotations

from typing import Final, cast

from flo.engine.errors import StepFailed
from flo.engine.executions import StepRecord
from flo.engine.language.workflow import Step
from flo.engine.run import Frame
from flo.engine.step import StepType
from flo.engine.values import Json, JsonObject, LazyList, dump, kind_of, plain, whole, whole_object

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


def stored_output(frame: Frame, step_type: StepType, output: JsonObject) -> tuple[JsonObject, str | None]:
    """What is stored of an output, secrets hidden, and that as JSON. The results of a loop are stored already: they are
    left out, and there is no JSON of the whole. Raises ``StepFailed`` for one that is too large."""
    if step_type.loops and isinstance(output.get(LOOP_ITEMS), LazyList):
        return _hidden(frame, {key: held for key, held in output.items() if key != LOOP_ITEMS}), None
    kept = _hidden(frame, output)
    text = dump(kept)
    if len(text) > MAX_OUTPUT:
        raise _too_large(len(text))
    return kept, text


def outputs_inside(frame: Frame) -> tuple[JsonObject, str]:
    """The outputs of the steps of an iteration, by stepId, as they are stored, and that as JSON."""
    scope = frame.scope
    outputs: dict[str, Json] = {}
    texts: list[str] = []
    for name, output in scope.names.items():
        if name[0] == "$":
            continue
        record = scope.metas.get(name)
        if isinstance(record, StepRecord) and record.output_text is not None and not frame.run.vault.active:
            outputs[name], text = record.output, record.output_text
        else:
            outputs[name] = frame.run.vault.hide(whole(output))
            text = dump(outputs[name])
        texts.append(f"{dump(name)}:{text}")
    return outputs, f"{{{','.join(texts)}}}"


def _hidden(frame: Frame, output: JsonObject) -> JsonObject:
    vault, read = frame.run.vault, cast(JsonObject, whole(output))
    return {key: vault.hide(held) for key, held in read.items()} if vault.active else read


def whole_output(step: Step, output: JsonObject) -> JsonObject:
    """The run's output, which outlives the run: results of loops in it are read once and for all."""
    read = whole_object(object_given(step, output))
    if (characters := len(dump(read))) > MAX_OUTPUT:
        raise _too_large(characters)
    return read


def _too_large(characters: int) -> StepFailed:
    message = f"the output has {characters:,} characters as JSON, the limit is {MAX_OUTPUT:,}"
    return StepFailed(message, code="too_large", retryable=False)
