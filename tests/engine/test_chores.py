"""What a process does again and again, while the store is away too."""

from __future__ import annotations

import pytest

from flo.engine.chores import Chore, Outage
from flo.engine.errors import StoreUnavailable


def test_pauses_grow_while_the_store_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("flo.engine.chores.time.monotonic", lambda: now[0])
    monkeypatch.setattr("flo.engine.chores.random.uniform", lambda low, high: high)

    def fail() -> float:
        raise StoreUnavailable("gone")

    chore = Chore("try", fail, Outage("worker"))
    pauses: list[float] = []
    for _ in range(8):
        assert not chore.attempt()
        pauses.append(round(chore.wait(), 3))
        chore.hasten()
        assert chore.wait() > 0, "nothing makes it ask a store that is away before its time"
        now[0] += chore.wait()
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
