"""What the tests of renewal have a renewer renew."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from flo.engine.errors import StoreUnavailable
from flo.engine.jobs import Hold


def over(**parts: Any) -> Any:
    """Something that renews, which is all that is asked of a store here."""
    return SimpleNamespace(**parts)


class Recorded:
    """Records which leases are renewed together; it is away while ``away`` is set."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, list[str]]] = []
        self.away = False

    def renew(self, holds: Sequence[Hold], *, lease: timedelta) -> Sequence[Hold]:
        self.calls.append((lease.total_seconds(), [hold.token for hold in holds]))
        if self.away:
            raise StoreUnavailable("gone for a moment")
        return holds
