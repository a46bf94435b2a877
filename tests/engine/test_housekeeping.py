"""Expired rows are taken away when runs end, in small numbers, and never at a run's cost."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flo.engine.errors import StoreUnavailable
from flo.engine.housekeeping import SWEEP_ROWS, Sweeper
from flo.engine.stores.memory import MemoryStore
from flo.engine.testing import FrozenClock

RUN = {"steps": [{"stepId": "a", "stepType": "test.echo", "input": {}}]}


def test_a_run_takes_expired_rows_away_but_not_more_often_than_once_a_minute(bench: Any) -> None:
    data = bench.engine.data
    bench.engine.run(RUN)
    data.set("t", "k", {}, ttl=timedelta(seconds=1))
    bench.clock.forward(timedelta(seconds=30))
    bench.engine.run(RUN)
    assert data.remove_expired() == 1, "it was taken away too soon"
    data.set("t", "k", {}, ttl=timedelta(seconds=1))
    bench.clock.forward(timedelta(seconds=31))
    bench.engine.run(RUN)
    assert data.remove_expired() == 0


def test_a_store_that_cannot_be_reached_costs_nothing_but_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    class Unreachable:
        def remove_expired(self, limit: int = SWEEP_ROWS) -> int:
            raise StoreUnavailable("gone")

    Sweeper(Unreachable(), FrozenClock()).sweep()  # type: ignore[arg-type]  # it removes, which is all that is asked
    assert "cannot remove expired rows: gone" in caplog.text


def test_no_sweep_takes_more_than_its_bound() -> None:
    clock = FrozenClock()
    data = MemoryStore(clock).data
    for at in range(SWEEP_ROWS + 5):
        data.set("t", str(at), {}, ttl=timedelta(seconds=1))
    clock.forward(timedelta(minutes=5))
    Sweeper(data, clock).sweep()
    assert data.remove_expired() == 5
