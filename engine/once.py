"""The rows as a step sees them that may run again: what it wrote once it does not write again.

A step can write, and be cut off before its end is recorded: by a crash, or by a failure after which it is tried again.
Each write commits together with its result; the step, run again, is given that result instead of a second write. Writes
are told apart by the step, the operation, table and key, and their number; one that changed nothing is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from flo.engine.errors import RunCancelled
from flo.engine.patience import patiently
from flo.engine.run import Frame
from flo.engine.stores.base import DataStore, Page, Row, Stored, Table, Updated
from flo.engine.stores.changes import Change
from flo.engine.stores.filters import Condition
from flo.engine.stores.ordering import Order
from flo.engine.stores.queueing import Owned
from flo.engine.values import Json, JsonObject, storable

T = TypeVar("T")


class OnceStore:
    """The ``DataStore`` of one attempt at a step. ``again`` says that an earlier one may have written."""

    def __init__(self, frame: Frame, path: str, *, again: bool) -> None:
        self._frame, self._path = frame, path
        self._data = frame.run.data if frame.bet is None else frame.bet.owned.data
        self._again = again
        self._numbers: dict[str, int] = {}

    def now(self) -> datetime:
        return self._read(self._data.now)

    def get(self, table: str, key: str) -> Row | None:
        return self._read(lambda: self._data.get(table, key))

    def query(self, table: str, where: Condition, order: Order = (), *, limit: int, cursor: str | None = None) -> Page:
        return self._read(lambda: self._data.query(table, where, order, limit=limit, cursor=cursor))

    def count(self, table: str, where: Condition) -> int:
        return self._read(lambda: self._data.count(table, where))

    def tables(self) -> Sequence[Table]:
        return self._read(self._data.tables)

    def set(
        self, table: str, key: str, value: Json, *, ttl: timedelta | None = None, if_absent: bool = False
    ) -> Stored:
        def write(data: DataStore) -> tuple[Stored, JsonObject]:
            stored = data.set(table, key, value, ttl=ttl, if_absent=if_absent)
            return stored, {"row": stored.row.as_json(), "created": stored.created}

        def read(kept: Mapping[str, Any]) -> Stored:
            return Stored(_row(kept["row"]), kept["created"])

        return self._once(f"set:{table}:{key}", write, read, lambda stored: stored.created or not if_absent)

    def set_many(self, table: str, entries: Sequence[tuple[str, Json]], *, if_absent: bool = False) -> tuple[int, int]:
        def write(data: DataStore) -> tuple[tuple[int, int], JsonObject]:
            created, updated = data.set_many(table, entries, if_absent=if_absent)
            return (created, updated), {"created": created, "updated": updated}

        def read(kept: Mapping[str, Any]) -> tuple[int, int]:
            return kept["created"], kept["updated"]

        return self._once(f"set-many:{table}:", write, read, any)

    def delete(self, table: str, where: Condition) -> int:
        def write(data: DataStore) -> tuple[int, JsonObject]:
            deleted = data.delete(table, where)
            return deleted, {"deleted": deleted}

        return self._once(f"delete:{table}:", write, lambda kept: int(kept["deleted"]), bool)

    def claim(
        self, table: str, where: Condition, order: Order, *, limit: int, holder: str, changes: Sequence[Change]
    ) -> Sequence[Row]:
        def write(data: DataStore) -> tuple[Sequence[Row], JsonObject]:
            rows = data.claim(table, where, order, limit=limit, holder=holder, changes=changes)
            return rows, {"rows": [row.as_json() for row in rows]}

        return self._once(f"claim:{table}:", write, lambda kept: [_row(row) for row in kept["rows"]], bool)

    def update(
        self, table: str, key: str, where: Condition, changes: Sequence[Change], *, upsert: bool = False
    ) -> Updated:
        def write(data: DataStore) -> tuple[Updated, JsonObject]:
            updated = data.update(table, key, where, changes, upsert=upsert)
            return updated, {"row": None if updated.row is None else updated.row.as_json()}

        def read(kept: Mapping[str, Any]) -> Updated:
            return Updated(True, None if kept["row"] is None else _row(kept["row"]))

        return self._once(f"update:{table}:{key}", write, read, lambda updated: updated.updated)

    def renew(self, table: str, held: Mapping[str, int], *, holder: str) -> Sequence[str]:
        return self._own(lambda owned: owned.data.renew(table, held, holder=holder))

    def remove_expired(self, limit: int = 1000) -> int:
        return self._own(lambda owned: owned.data.remove_expired(limit))

    def _own(self, work: Callable[[Owned], T], **how: Any) -> T:
        """Write in the transaction that is under way, or in one of its own: ``how`` as for ``Strand.own``."""
        bet = self._frame.bet
        return self._frame.strand.own(work, **how) if bet is None else work(bet.owned)

    def _read(self, work: Callable[[], T]) -> T:
        return patiently(self._frame.run.clock, f"read for step {self._path!r}", lambda doubt: work())

    def _once(
        self,
        name: str,
        write: Callable[[DataStore], tuple[T, JsonObject]],
        read: Callable[[Mapping[str, Any]], T],
        changed: Callable[[T], bool],
    ) -> T:
        """Make a write, or give what it gave before."""
        name = storable(name)  # a key that is refused has no effect to find
        number = self._numbers.get(name, 0)
        stopped = self._frame.cancellation.event

        def transaction(owned: Owned) -> tuple[T, bool]:
            if stopped.is_set():  # this attempt was given up: another one may be under way
                raise RunCancelled("stopped")
            if self._again and (kept := owned.effect(self._path, name, number)) is not None:
                return read(kept), True
            result, kept = write(owned.data)
            if changed(result):
                owned.keep_effect(self._path, name, number, kept)
                return result, True
            return result, False

        def applied() -> tuple[T, bool] | None:
            self._again = True  # whether the last try was committed is not known: the next one looks
            return None

        result, counts = self._own(transaction, applied=applied, wanted=lambda: not stopped.is_set())
        self._numbers[name] = number + counts
        return result


def _row(kept: Mapping[str, Any]) -> Row:
    ends = kept["expiresAt"]
    return Row(
        kept["key"],
        kept["value"],
        datetime.fromisoformat(kept["createdAt"]),
        datetime.fromisoformat(kept["updatedAt"]),
        None if ends is None else datetime.fromisoformat(ends),
        kept["claimCount"],
    )
