"""Claims of a live execution are kept fresh; lost, finished and let-go rows are not."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from flo.engine.clock import SystemClock
from flo.engine.errors import FloError, StepFailed, StoreUnavailable
from flo.engine.renewal import Renewer
from flo.engine.stores.changes import parse_changes
from flo.engine.stores.filters import EVERY, parse_where
from flo.engine.stores.memory import MemoryStore
from flo.engine.testing import FrozenClock


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def data(clock: FrozenClock) -> Any:
    return MemoryStore(clock).data


@pytest.fixture
def renewer(data: Any, clock: FrozenClock) -> Iterator[Renewer]:
    made = Renewer(data, clock)
    yield made
    made.close()


def claim(data: Any, key: str = "k", holder: str = "me") -> dict[str, int]:
    data.set("t", key, {"status": "pending"})
    [row] = data.claim("t", EVERY, (), limit=1, holder=holder, changes=())
    return {row.key: row.claim_count}


def claimed_at(data: Any, key: str = "k") -> str:
    return str(data.get("t", key).value["claimedAt"])


def test_a_claim_is_renewed_when_it_is_due_and_not_before(data: Any, renewer: Renewer, clock: FrozenClock) -> None:
    renewer.keep("t", claim(data), holder="me", every=60)
    clock.forward(timedelta(seconds=59))
    renewer.renew_due()
    assert claimed_at(data) == "2026-01-01T00:00:00.000000Z"
    clock.forward(timedelta(seconds=1))
    renewer.renew_due()
    assert claimed_at(data) == "2026-01-01T00:01:00.000000Z"


def test_live_work_is_never_stale(data: Any, renewer: Renewer, clock: FrozenClock) -> None:
    renewer.keep("t", claim(data), holder="me", every=60)
    stale = parse_where([{"field": "claimedAt", "operator": "olderThan", "value": "3m"}])
    for _ in range(20):
        clock.forward(timedelta(seconds=61))
        renewer.renew_due()
        assert data.claim("t", stale, (), limit=1, holder="thief", changes=()) == []


@pytest.mark.parametrize("how", ["done", "taken", "let go"])
def test_a_row_that_is_no_longer_held_is_left_alone(data: Any, renewer: Renewer, clock: FrozenClock, how: str) -> None:
    renewer.keep("t", claim(data), holder="me", every=60)
    if how == "done":
        data.update("t", "k", EVERY, parse_changes([{"field": "status", "operation": "set", "value": "done"}]))
    elif how == "taken":
        data.claim("t", EVERY, (), limit=1, holder="thief", changes=())
    else:
        renewer.let_go("me")
    before = claimed_at(data)
    clock.forward(timedelta(seconds=120))
    renewer.renew_due()
    assert claimed_at(data) == before


@pytest.mark.parametrize(
    "error", [StoreUnavailable("gone for a moment"), StepFailed("too large")], ids=["store", "row"]
)
def test_a_renewal_that_fails_is_tried_again_at_the_next_turn(data: Any, clock: FrozenClock, error: FloError) -> None:
    class Failing:
        """A data store whose first renewal fails."""

        failures = 1

        def renew(self, table: str, held: Mapping[str, int], *, holder: str) -> Sequence[str]:
            if self.failures:
                self.failures -= 1
                raise error
            renewed: Sequence[str] = data.renew(table, held, holder=holder)
            return renewed

    renewer = Renewer(Failing(), clock)  # type: ignore[arg-type]  # it renews, which is all that is asked of it
    renewer.keep("t", claim(data), holder="me", every=60)
    for _ in range(2):
        clock.forward(timedelta(seconds=60))
        renewer.renew_due()
    renewer.close()
    assert claimed_at(data) == "2026-01-01T00:02:00.000000Z"


def test_claims_of_one_execution_are_renewed_together(clock: FrozenClock) -> None:
    calls: list[dict[str, int]] = []

    class Counting:
        """Counts renewals; every row is still held."""

        def renew(self, table: str, held: Mapping[str, int], *, holder: str) -> Sequence[str]:
            calls.append(dict(held))
            return list(held)

    renewer = Renewer(Counting(), clock)  # type: ignore[arg-type]  # it renews, which is all that is asked of it
    renewer.close()
    for key in "abc":
        renewer.keep("t", {key: 1}, holder="me", every=60)
    renewer.keep("t", {"b": 2}, holder="me", every=60)
    clock.forward(timedelta(seconds=60))
    renewer.renew_due()
    assert calls == [{"a": 1, "b": 2, "c": 1}]
    renewer.renew_due()
    assert len(calls) == 1


def test_the_thread_renews_by_itself(data: Any) -> None:
    renewed = threading.Event()

    class Watched:
        def renew(self, table: str, held: Mapping[str, int], *, holder: str) -> Sequence[str]:
            renewed.set()
            return list(held)

    renewer = Renewer(Watched(), SystemClock())  # type: ignore[arg-type]  # it renews, which is all that is asked of it
    renewer.keep("t", {"k": 1}, holder="me", every=0.01)
    assert renewed.wait(10)
    renewer.close()
