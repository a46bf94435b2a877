"""What a claim gives its owner, in SQL that both dialects accept: rows as deliveries, and their documents."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any, Final

from flo.engine.jobs import Delivery, Hold
from flo.engine.stores.database import Database, Values
from flo.engine.stores.sql_lists import listed, one_of
from flo.engine.stores.sql_rows import EXECUTION, FROM_EXECUTIONS, LEAN, execution_of, read_json

CLAIMED: Final = f"{LEAN.replace('e.', '')}, lease_token, variables, tolerated"
"""What a claim reads of the rows that it has written, behind ``RETURNING``. Documents are read apart: a claim of many
has few."""

_DELIVERY: Final = f"{EXECUTION}, e.lease_token, e.variables, e.tolerated"
_DOCUMENTS: Final = "SELECT digest, document FROM definitions WHERE digest {digests}"
_LAST_LINES: Final = (
    "SELECT execution_id, max(number) FROM execution_lines WHERE execution_id {ids} GROUP BY execution_id"
)
_KEPT: Final = 64

_columns = CLAIMED.split(", ").index
_DIGEST, _DELIVERIES = _columns("digest"), _columns("deliveries")

Row = tuple[Any, ...]
Query = Callable[[str, Values], list[Row]]
"""Runs a query, inside a transaction or outside any."""


class Definitions:
    """The documents of executions. They never change, so the newest that were read are kept."""

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect
        self._kept: OrderedDict[str, str] = OrderedDict()
        self._lock = Lock()

    def of(self, execute: Query, rows: Iterable[Row]) -> Mapping[str, str]:
        """The documents of rows with the columns ``CLAIMED``, by digest."""
        digests = {row[_DIGEST] for row in rows}
        with self._lock:
            known = {digest: self._kept[digest] for digest in digests if digest in self._kept}
        if missing := digests - known.keys():
            sql = _DOCUMENTS.format(digests=one_of(self._dialect, "digests"))
            read: dict[str, str] = dict(execute(sql, {"digests": listed(self._dialect, missing)}))
            known |= read
            self._keep(read)
        return known

    def _keep(self, read: Mapping[str, str]) -> None:
        with self._lock:
            self._kept.update(read)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)


def last_lines(database: Database, execute: Query, rows: Iterable[Row]) -> Mapping[str, int]:
    """The number of the last log line of those among rows with the columns ``CLAIMED`` that had an owner before."""
    begun = [row[0] for row in rows if row[_DELIVERIES] > 1]
    if not begun:
        return {}
    sql = _LAST_LINES.format(ids=one_of(database.dialect, "ids"))
    return dict(execute(sql, {"ids": listed(database.dialect, begun)}))


def claimed_ones(
    database: Database, rows: Iterable[Row], worker: str, documents: Mapping[str, str], lines: Mapping[str, int]
) -> list[Delivery]:
    """The deliveries of rows with the columns ``CLAIMED``."""
    return [_delivery(database, row, worker, lines.get(row[0], 0), documents.get(row[_DIGEST], "")) for row in rows]


def deliveries_of(database: Database, execute: Query, ids: Sequence[str], worker: str) -> list[Delivery]:
    """The deliveries of executions that were just claimed, in order."""
    values = {"ids": listed(database.dialect, ids)}
    rows = execute(f"SELECT {_DELIVERY} {FROM_EXECUTIONS} WHERE e.id {one_of(database.dialect, 'ids')}", values)
    lines = last_lines(database, execute, rows)
    found = {row[0]: _delivery(database, row, worker, lines.get(row[0], 0)) for row in rows}
    return [found[execution_id] for execution_id in ids]


def _delivery(database: Database, row: Row, worker: str, last_line: int, definition: str | None = None) -> Delivery:
    execution = execution_of(database, row, definition)
    token, variables, tolerated = row[-3:]
    return Delivery(
        execution,
        Hold(execution.id, token, execution.fence, worker),
        read_json(variables) or {},
        tolerated,
        last_line,
        begun=execution.deliveries > 1,
    )
