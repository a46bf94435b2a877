"""Rows of JSON on PostgreSQL: each operation is one statement that commits by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from flo.engine.stores.base import Page, Row, Stored, Table, Updated
from flo.engine.stores.changes import Change
from flo.engine.stores.claiming import IN_FLIGHT
from flo.engine.stores.filters import Condition
from flo.engine.stores.limits import check_name, check_ttl, stored_text
from flo.engine.stores.ordering import Order, position, read_cursor, write_cursor
from flo.engine.stores.postgres_changes import NOW, changes_sql
from flo.engine.stores.postgres_database import Joined, PostgresDatabase
from flo.engine.stores.postgres_json import to_jsonb
from flo.engine.stores.postgres_order import after_sql, asks_for_a_status, order_sql, sorting
from flo.engine.stores.postgres_statement import Values
from flo.engine.stores.postgres_where import where_sql
from flo.engine.stores.sql_rows import read_json
from flo.engine.values import Json, dump

_ROW: Final = "r.key, r.value, r.created_at, r.updated_at, r.expires_at, r.claim_count"
_LIVE: Final = "r.table_name = :table AND (r.expires_at IS NULL OR r.expires_at > :now)"
_ENDED: Final = "r.expires_at <= :now"

_IS_OBJECT: Final = "coalesce(jsonb_typeof(r.value) = 'object', false)"
"""By an expression that the planner takes for half of the rows, and not for a two-hundredth."""

_REPLACE: Final = f"""
ON CONFLICT (table_name, key) DO UPDATE SET
    value = excluded.value, updated_at = excluded.updated_at, expires_at = excluded.expires_at, claim_count = 0,
    created_at = CASE WHEN {_ENDED} THEN excluded.created_at ELSE r.created_at END,
    seq = CASE WHEN {_ENDED} THEN excluded.seq ELSE r.seq END
"""
"""A live row keeps its place; an expired one counts as absent, and gives it up."""

_PUT: Final = f"""
INSERT INTO rows AS r (table_name, key, value, created_at, updated_at, expires_at)
VALUES (:table, :key, :value, :now, :now, :now + :ttl::interval)
{_REPLACE}
"""
_RETURNING: Final = f"RETURNING {_ROW}, r.seq = currval('rows_seq_seq')"
"""The row, and whether its place is the one that this statement drew: whether it is new."""

_SET: Final = f"{_PUT} {_RETURNING}"
_SET_IF_ABSENT: Final = f"{_PUT} WHERE {_ENDED} {_RETURNING}"

_PUT_MANY: Final = f"""
WITH entries AS MATERIALIZED (
    SELECT nextval('rows_seq_seq') AS seq, e.key, e.value
    FROM json_to_recordset(:entries::json) AS e (key text, value text)
), written AS (
    INSERT INTO rows AS r (seq, table_name, key, value, created_at, updated_at)
    SELECT seq, :table, key, value::jsonb, :now, :now FROM entries ORDER BY key COLLATE "C"
    {_REPLACE}{{only}}
    RETURNING r.seq
)
SELECT count(entries.seq), count(*) - count(entries.seq) FROM written LEFT JOIN entries USING (seq)
"""
"""Places are drawn in the order given, rows are locked in the order of their keys. The driver writes a list of JSON in
a part of the time that it needs for arrays."""

_SET_MANY: Final = _PUT_MANY.format(only="")
_SET_MANY_IF_ABSENT: Final = _PUT_MANY.format(only=f" WHERE {_ENDED}")

_GET: Final = f"SELECT {_ROW} FROM rows AS r WHERE {_LIVE} AND r.key = :key"

_CLAIMED: Final = f"""
(r.value || jsonb_build_object('status', '{IN_FLIGHT}', 'claimedAt', {NOW}, 'claimedBy', :holder::text))
"""
_CLAIM: Final = f"""
WITH picked AS MATERIALIZED (
    SELECT r.key FROM rows AS r
    WHERE {_LIVE} AND {{where}}
    ORDER BY {{order}} LIMIT {{limit}} FOR UPDATE SKIP LOCKED
), placed AS (
    SELECT picked.key, row_number() OVER () AS place FROM picked
)
UPDATE rows AS r
SET value = flo.bounded({{value}}, r.table_name, r.key), updated_at = :now, claim_count = r.claim_count + 1
FROM placed WHERE r.table_name = :table AND r.key = placed.key
RETURNING {_ROW}, placed.place
"""
"""The limit is written out, so that a plan made for every claim knows how few rows there are to join."""

_UPDATE: Final = f"""
UPDATE rows AS r SET value = flo.bounded({{value}}, r.table_name, r.key), updated_at = :now
WHERE {_LIVE} AND r.key = :key AND ({{where}}) IS TRUE
RETURNING {_ROW}, true
"""
"""Waits for whoever changes the row, and asks the guard again then. ``IS TRUE`` keeps the guard from being taken for a
way to find the row."""

_UPDATE_OR_SAY_WHY: Final = f"""
WITH target AS MATERIALIZED (
    SELECT {_ROW}, coalesce({{where}}, false) AS holds FROM rows AS r WHERE {_LIVE} AND r.key = :key FOR UPDATE
), changed AS (
    UPDATE rows AS r SET value = flo.bounded({{value}}, r.table_name, r.key), updated_at = :now
    FROM target WHERE target.holds AND r.table_name = :table AND r.key = target.key
    RETURNING {_ROW}
)
SELECT *, true FROM changed
UNION ALL SELECT key, value, created_at, updated_at, expires_at, claim_count, false FROM target WHERE NOT holds
"""
"""The row is locked before the guard is read, so that what it says is of the row as it is. That costs as much as the
change itself, so it is for those that ``_UPDATE`` changed nothing of."""

_RENEW: Final = f"""
UPDATE rows AS r
SET value = r.value || jsonb_build_object('claimedAt', flo.rfc3339(:now)), updated_at = :now
FROM unnest(:keys::text[], :counts::bigint[]) AS held (key, claim_count)
WHERE {_LIVE} AND r.key = held.key AND r.claim_count = held.claim_count
  AND r.value -> 'claimedBy' = to_jsonb(:holder::text) AND r.value -> 'status' = to_jsonb(:status::text)
RETURNING r.key
"""

_REMOVE_EXPIRED: Final = f"""
WITH expired AS MATERIALIZED (
    SELECT r.table_name, r.key FROM rows AS r WHERE {_ENDED}
    ORDER BY r.expires_at LIMIT :limit FOR UPDATE SKIP LOCKED
), removed AS (
    DELETE FROM rows AS r USING expired
    WHERE r.table_name = expired.table_name AND r.key = expired.key AND {_ENDED} RETURNING 1
)
SELECT count(*) FROM removed
"""

_TABLES: Final = """
SELECT r.table_name, count(*) FROM rows AS r WHERE r.expires_at IS NULL OR r.expires_at > :now
GROUP BY r.table_name ORDER BY r.table_name
"""


class PostgresData:
    """The ``DataStore`` of PostgreSQL. Conditions, orders and changes are evaluated in the statement."""

    def __init__(self, database: PostgresDatabase | Joined) -> None:
        self._database = database

    def now(self) -> datetime:
        return self._database.now()

    def set(
        self, table: str, key: str, value: Json, *, ttl: timedelta | None = None, if_absent: bool = False
    ) -> Stored:
        _check_names(table, key)
        check_ttl(ttl)
        values = {"table": table, "key": key, "value": to_jsonb(stored_text(table, key, value)), "ttl": ttl}
        while True:
            if rows := self._database.run(_SET_IF_ABSENT if if_absent else _SET, values):
                return Stored(_row(rows[0]), created=rows[0][6])
            if (held := self.get(table, key)) is not None:
                return Stored(held, created=False)
            # it was there, and is gone in between

    def set_many(self, table: str, entries: Sequence[tuple[str, Json]], *, if_absent: bool = False) -> tuple[int, int]:
        check_name("table", table)
        texts: dict[str, str] = {}
        for key, value in entries:
            check_name("key", key)
            texts[key] = to_jsonb(stored_text(table, key, value))
        if not texts:
            return 0, 0
        values = {"table": table, "entries": dump([{"key": key, "value": text} for key, text in texts.items()])}
        created, updated = self._database.run(_SET_MANY_IF_ABSENT if if_absent else _SET_MANY, values)[0]
        return created, updated

    def get(self, table: str, key: str) -> Row | None:
        _check_names(table, key)
        rows = self._database.read(_GET, {"table": table, "key": key})
        return _row(rows[0]) if rows else None

    def query(self, table: str, where: Condition, order: Order = (), *, limit: int, cursor: str | None = None) -> Page:
        check_name("table", table)
        values = _of_table(table)
        sql = f"SELECT {_ROW}, r.seq FROM rows AS r WHERE {_LIVE} AND {where_sql(where, values)}"
        after = None if cursor is None else read_cursor(order, cursor)
        parts = sorting(order, where, after, values)
        if after is not None:
            sql += f" AND {after_sql(parts)}"
        found = self._database.read(f"{sql} ORDER BY {order_sql(parts)} LIMIT {limit + 1:d}", values)
        rows = [_row(record) for record in found[:limit]]
        if len(found) <= limit or not rows:
            return Page(rows, None)
        last = position(order, rows[-1], found[limit - 1][6])
        return Page(rows, write_cursor(order, last))

    def count(self, table: str, where: Condition) -> int:
        check_name("table", table)
        values = _of_table(table)
        sql = f"SELECT count(*) FROM rows AS r WHERE {_LIVE} AND {where_sql(where, values)}"
        return int(self._database.read(sql, values)[0][0])

    def delete(self, table: str, where: Condition) -> int:
        check_name("table", table)
        values = _of_table(table)
        gone = f"DELETE FROM rows AS r WHERE {_LIVE} AND {where_sql(where, values)} RETURNING 1"
        return int(self._database.run(f"WITH gone AS ({gone}) SELECT count(*) FROM gone", values)[0][0])

    def claim(
        self, table: str, where: Condition, order: Order, *, limit: int, holder: str, changes: Sequence[Change]
    ) -> Sequence[Row]:
        check_name("table", table)
        sql, values = claim_statement(table, where, order, limit=limit, holder=holder, changes=changes)
        rows = self._database.run(sql, values)
        rows.sort(key=lambda row: row[6])
        return [_row(row) for row in rows]

    def update(
        self, table: str, key: str, where: Condition, changes: Sequence[Change], *, upsert: bool = False
    ) -> Updated:
        _check_names(table, key)
        values = _of_table(table)
        values["key"] = key
        held = "flo.changeable(r.value)" if changes else "r.value"
        parts = {"where": where_sql(where, values), "value": changes_sql(held, changes, values)}
        sql = _UPDATE.format_map(parts)
        while True:
            rows = self._database.run(sql, values)
            if rows or (rows := self._database.run(_UPDATE_OR_SAY_WHY.format_map(parts), values)):
                updated = bool(rows[0][6])
                return Updated(updated, _row(rows[0]), None if updated else "guard")
            if not upsert:
                return Updated(False, None, "not-found")
            if (made := self._make(table, key, changes)) is not None:
                return Updated(True, made)
            # another session made it first: it is there to be changed

    def renew(self, table: str, held: Mapping[str, int], *, holder: str) -> Sequence[str]:
        check_name("table", table)
        keys = sorted(held)
        values = {
            "table": table,
            "keys": keys,
            "counts": [held[key] for key in keys],
            "holder": holder,
            "status": IN_FLIGHT,
        }
        return [key for (key,) in self._database.run(_RENEW, values, repeatable=True)]

    def remove_expired(self, limit: int = 1000) -> int:
        return int(self._database.run(_REMOVE_EXPIRED, {"limit": limit})[0][0])

    def tables(self) -> Sequence[Table]:
        return [Table(name, count) for name, count in self._database.read(_TABLES)]

    def _make(self, table: str, key: str, changes: Sequence[Change]) -> Row | None:
        """Make a row from an empty object; None where there is one by now."""
        values = _of_table(table)
        values |= {"key": key, "ttl": None}
        made = changes_sql("'{}'::jsonb", changes, values)
        value = f"flo.bounded({made}, :table, :key)"
        rows = self._database.run(f"{_PUT.replace(':value', value)} WHERE {_ENDED} RETURNING {_ROW}", values)
        return _row(rows[0]) if rows else None


def claim_statement(
    table: str, where: Condition, order: Order, *, limit: int, holder: str, changes: Sequence[Change]
) -> tuple[str, Values]:
    """The one statement of a claim, and its values."""
    values = _of_table(table)
    values["holder"] = holder
    condition = where_sql(where, values)
    if not asks_for_a_status(where):
        condition += f" AND {_IS_OBJECT}"
    ordered = order_sql(sorting(order, where, None, values))
    value = changes_sql(_CLAIMED, changes, values)
    return _CLAIM.format(where=condition, order=ordered, limit=f"{limit:d}", value=value), values


def _of_table(table: str) -> Values:
    values = Values()
    values["table"] = table
    return values


def _check_names(table: str, key: str) -> None:
    check_name("table", table)
    check_name("key", key)


def _row(record: tuple[Any, ...]) -> Row:
    key, text, created_at, updated_at, expires_at, claim_count = record[:6]
    return Row(
        key,
        read_json(text),
        created_at.astimezone(UTC),
        updated_at.astimezone(UTC),
        None if expires_at is None else expires_at.astimezone(UTC),
        claim_count,
    )
