"""The rows as a step sees them whose run knows secrets: none of these is ever written to a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from flo.engine.errors import StepFailed
from flo.engine.netting import Net
from flo.engine.stores.base import DataStore, Page, Row, Stored, Table, Updated
from flo.engine.stores.changes import Change
from flo.engine.stores.filters import Condition
from flo.engine.stores.ordering import Order
from flo.engine.values import Json
from flo.engine.vault import Vault


def refuse_secret(vault: Vault, net: Net, what: str, value: Json) -> None:
    """Fail where a value that is to be written to the store holds a secret. ``net`` is that of the step."""
    if vault.holds_secret(value, net):
        message = f"{what} holds a secret, and rows are readable; keep a name for it instead, and read the secret"
        message += " from $env or $connections where it is used"
        raise StepFailed(message, code="secret_refused", retryable=False)


class GuardedStore:
    """A ``DataStore`` that refuses to write what ``refuse`` refuses. A row that holds ``***`` in the place of a secret
    would be lost work, and one that holds the secret a leak: the step fails instead."""

    def __init__(self, data: DataStore, refuse: Callable[[str, Json], None]) -> None:
        """``refuse`` is given what a value is (``key``, ``value``) and raises ``StepFailed`` where it holds a
        secret."""
        self._data, self._refuse = data, refuse

    def now(self) -> datetime:
        return self._data.now()

    def get(self, table: str, key: str) -> Row | None:
        return self._data.get(table, key)

    def query(self, table: str, where: Condition, order: Order = (), *, limit: int, cursor: str | None = None) -> Page:
        return self._data.query(table, where, order, limit=limit, cursor=cursor)

    def count(self, table: str, where: Condition) -> int:
        return self._data.count(table, where)

    def tables(self) -> Sequence[Table]:
        return self._data.tables()

    def set(
        self, table: str, key: str, value: Json, *, ttl: timedelta | None = None, if_absent: bool = False
    ) -> Stored:
        self._check(table, key)
        self._refuse("the value of a row", value)
        return self._data.set(table, key, value, ttl=ttl, if_absent=if_absent)

    def set_many(self, table: str, entries: Sequence[tuple[str, Json]], *, if_absent: bool = False) -> tuple[int, int]:
        self._refuse("the name of a table", table)
        self._refuse("one of the rows", [[key, value] for key, value in entries])
        return self._data.set_many(table, entries, if_absent=if_absent)

    def delete(self, table: str, where: Condition) -> int:
        return self._data.delete(table, where)

    def claim(
        self, table: str, where: Condition, order: Order, *, limit: int, holder: str, changes: Sequence[Change]
    ) -> Sequence[Row]:
        self._check_changes(changes)
        return self._data.claim(table, where, order, limit=limit, holder=holder, changes=changes)

    def update(
        self, table: str, key: str, where: Condition, changes: Sequence[Change], *, upsert: bool = False
    ) -> Updated:
        self._check(table, key)
        self._check_changes(changes)
        return self._data.update(table, key, where, changes, upsert=upsert)

    def renew(self, table: str, held: Mapping[str, int], *, holder: str) -> Sequence[str]:
        return self._data.renew(table, held, holder=holder)

    def remove_expired(self, limit: int = 1000) -> int:
        return self._data.remove_expired(limit)

    def _check(self, table: str, key: str) -> None:
        self._refuse("the name of a table", table)
        self._refuse("the key of a row", key)

    def _check_changes(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._refuse("a change of a row", change.value)
