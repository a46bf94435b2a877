"""What the two SQL adapters have in common: a database that runs statements with ``:name`` parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Values = Mapping[str, object]


class DriverFailed(BaseException):
    """A driver's error on its way out of a transaction, past code between that handles exceptions of its own. It never
    leaves the transaction: whoever began that raises ``error``."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__(str(error))


class Execute(Protocol):
    """Runs one statement inside a transaction and gives its rows (none for a statement that returns nothing)."""

    def __call__(self, sql: str, values: Values = ...) -> list[tuple[Any, ...]]: ...

    def many(self, sql: str, rows: Sequence[Values]) -> None:
        """Run one statement that returns nothing for each of ``rows``, at the driver's fastest. That it failed is told
        as by ``later``."""

    def later(
        self, sql: str, values: Values = ..., then: Callable[[list[tuple[Any, ...]]], object] | None = None
    ) -> None:
        """Run one statement whose rows nobody waits for: where the server is far away, it goes there with the next one
        that is waited for, or with the commit. That it failed is told then, and the transaction is undone, whatever
        its work makes of that. ``then`` is given the rows by that time, and must not raise.
        """


class Database(Protocol):
    """Runs statements that both dialects understand.

    Parameters are ``:name``; a ``datetime`` is written in the dialect's own form. ``:now`` is never given: it is the
    instant of the clock that decides. JSON goes in as text; JSON columns come back as text. Driver errors come out as
    ``StoreError``; conflicts between writers are retried inside.
    """

    dialect: str
    """``sqlite`` or ``postgresql``."""

    url: str
    """The URL as given, without its password."""

    def read(self, sql: str, values: Values = ...) -> list[tuple[Any, ...]]:
        """Run one query outside any transaction and give its rows."""

    def write(self, work: Callable[[Execute], T], *, vital: bool = False) -> T:
        """Run ``work`` in one write transaction: committed when this returns, undone when it raises. ``work`` may be
        run again after a conflict, so it must not have effects of its own. A ``vital`` one, which is small, may take
        the last space there is."""

    def now(self) -> datetime:
        """The clock that decides: aware, UTC."""

    def instant(self, stored: object) -> datetime:
        """Read an instant column as an aware UTC time."""
