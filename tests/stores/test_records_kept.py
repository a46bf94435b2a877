"""What a store keeps of a step's record is its own, and the same whoever wrote the output as JSON."""

from __future__ import annotations

from typing import Any

import pytest

from flo.engine.jobs import Entries
from flo.engine.stores.store import Store
from flo.engine.values import dump

from .jobs import recorded, started, step

OUTPUT: dict[str, Any] = {"é": [1, None, {"x": 2**70}], "text": 'a "quoted" one\n'}


@pytest.mark.parametrize("written", [False, True])
def test_a_record_comes_back_as_it_was_given(store: Store, written: bool) -> None:
    hold = started(store).hold
    text = dump(OUTPUT) if written else None
    given = step(hold.execution_id, "a", output=OUTPUT, output_text=text, error={"code": "x"}, notices=("n",))
    recorded(store, hold, Entries(steps=(given,)))
    assert list(store.executions.steps(hold.execution_id)) == [given]


@pytest.mark.parametrize("written", [False, True])
def test_what_is_kept_changes_neither_with_what_was_given_nor_with_what_was_read(store: Store, written: bool) -> None:
    hold = started(store).hold
    output: dict[str, Any] = {"list": [1]}
    text = dump(output) if written else None
    recorded(store, hold, Entries(steps=(step(hold.execution_id, "a", output=output, output_text=text),)))
    output["list"].append(2)
    (read,) = store.executions.steps(hold.execution_id)
    changed: Any = read.output
    changed["list"].append(3)
    (kept,) = store.executions.steps(hold.execution_id)
    assert kept.output == {"list": [1]}


def test_records_written_again_in_a_batch_replace_those_before_and_are_undone_with_it(store: Store) -> None:
    hold = started(store).hold
    first = step(hold.execution_id, "l[0]", loop="l", index=0, output={"n": 0})
    recorded(store, hold, Entries(steps=(first,)))
    later = [step(hold.execution_id, f"l[{at}]", loop="l", index=at, output={"n": at + 10}) for at in range(3)]

    def failing(owned: Any) -> None:
        owned.record(Entries(steps=tuple(later)))
        raise RuntimeError("undone")

    with pytest.raises(RuntimeError, match="undone"):
        store.queue.own(hold, failing)
    assert list(store.executions.iterations(hold.execution_id, "l", start=0, limit=9)) == [first]
    recorded(store, hold, Entries(steps=tuple(later)))
    assert list(store.executions.iterations(hold.execution_id, "l", start=0, limit=9)) == later


def test_a_record_without_its_output_is_stored_without(store: Store) -> None:
    hold = started(store).hold
    given = step(hold.execution_id, "a", output={"n": 1}, output_text='{"n":1}').without_output()
    recorded(store, hold, Entries(steps=(given,)))
    (kept,) = store.executions.steps(hold.execution_id)
    assert kept.output is None
