"""Step types over the data store: rows of JSON in named tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Final

from flo.engine.errors import FilterInvalid, StepFailed
from flo.engine.instants import parse_duration
from flo.engine.step import StepCall, step_type
from flo.engine.stores.base import Row
from flo.engine.stores.changes import Change, parse_changes
from flo.engine.stores.filters import EVERY, Condition, key_is, parse_where
from flo.engine.stores.ordering import parse_order
from flo.engine.values import Json, JsonObject, shown
from flo.steps.data_store_schemas import (
    DEFAULT_PAGE,
    FILTER_MODE,
    KEY,
    MAX_PAGE,
    ORDER_BY,
    ROW,
    SET,
    TABLE,
    VALUE,
    WHERE,
    fields,
    row_and,
)


@step_type(
    "data-store.set",
    schema=fields(
        ["tableName", "key", "value"],
        {
            "tableName": TABLE,
            "key": KEY,
            "value": VALUE,
            "ttlSeconds": {"type": "number", "exclusiveMinimum": 0, "description": "When the row expires."},
            "ifAbsent": {"type": "boolean", "default": False, "description": "Leave a row that is there as it is."},
        },
    ),
    output=row_and(created={"type": "boolean", "description": "Whether this call made the row."}),
    example={
        "tableName": "pending_ops",
        "key": "<< $util.uuid >>",
        "value": {"status": "pending", "payload": {"n": 1}},
    },
    transactional=True,
    joins=True,
)
def set_(call: StepCall, input: JsonObject) -> JsonObject:
    """Write one row.

    Over an existing key it replaces the whole value, keeps `createdAt`, and puts `claimCount` back to 0: new work in
    the old place.
    """
    ttl = input.get("ttlSeconds")
    stored = call.store.set(
        _text(input, "tableName"),
        _text(input, "key"),
        input["value"],
        ttl=timedelta(seconds=ttl) if isinstance(ttl, int | float) else None,
        if_absent=input.get("ifAbsent") is True,
    )
    return {**stored.row.as_json(), "created": stored.created}


@step_type(
    "data-store.set-many",
    schema=fields(
        ["tableName", "entries"],
        {
            "tableName": TABLE,
            "entries": {
                "type": "array",
                "description": "Rows to write, all or none.",
                "items": fields(["key", "value"], {"key": KEY, "value": VALUE}),
            },
            "ifAbsent": {"type": "boolean", "default": False, "description": "Leave rows that are there as they are."},
        },
    ),
    output=fields(
        ["created", "updated"],
        {
            "created": {"type": "integer", "description": "How many rows this call made."},
            "updated": {"type": "integer", "description": "How many that were there it wrote anew."},
        },
    ),
    example={"tableName": "pending_ops", "entries": [{"key": "a", "value": {"status": "pending"}}]},
    transactional=True,
    joins=True,
)
def set_many(call: StepCall, input: JsonObject) -> JsonObject:
    """Write many rows, all or none."""
    entries = input["entries"]
    assert isinstance(entries, Sequence)
    pairs = [(entry["key"], entry["value"]) for entry in entries if isinstance(entry, dict)]
    created, updated = call.store.set_many(_text(input, "tableName"), pairs, if_absent=input.get("ifAbsent") is True)
    return {"created": created, "updated": updated}


@step_type(
    "data-store.get",
    schema=fields(["tableName", "key"], {"tableName": TABLE, "key": KEY}),
    output=row_and(found={"type": "boolean", "description": "Whether there is such a row."}),
    example={"tableName": "settings", "key": "limits"},
    touches=False,
    joins=True,
)
def get(call: StepCall, input: JsonObject) -> JsonObject:
    """Read one row by its key."""
    row = call.store.get(_text(input, "tableName"), _text(input, "key"))
    return {"found": False} if row is None else {"found": True, **row.as_json()}


@step_type(
    "data-store.query",
    schema=fields(
        ["tableName"],
        {
            "tableName": TABLE,
            "where": WHERE,
            "filterMode": FILTER_MODE,
            "orderBy": ORDER_BY,
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_PAGE,
                "default": DEFAULT_PAGE,
                "description": "At most so many rows.",
            },
            "cursor": {"type": ["string", "null"], "description": "`nextCursor` of the page before."},
        },
    ),
    output=fields(
        ["rows", "count", "nextCursor"],
        {
            "rows": {"type": "array", "items": ROW, "description": "The rows, in order."},
            "count": {"type": "integer", "description": "How many rows this page has."},
            "nextCursor": {
                "type": ["string", "null"],
                "description": "Where the next page begins; null after the last.",
            },
        },
    ),
    example={
        "tableName": "orders",
        "where": [{"field": "total", "operator": "gte", "value": 100}],
        "orderBy": {"field": "createdAt", "direction": "desc"},
        "limit": 20,
    },
    exact=("where",),
    touches=False,
    joins=True,
)
def query(call: StepCall, input: JsonObject) -> JsonObject:
    """Read rows that match, in order, a page at a time."""
    cursor = input.get("cursor")
    page = call.store.query(
        _text(input, "tableName"),
        _where(input),
        parse_order(input.get("orderBy", [])),
        limit=_limit(input, DEFAULT_PAGE),
        cursor=cursor if isinstance(cursor, str) else None,
    )
    return {"rows": _rows(page.rows), "count": len(page.rows), "nextCursor": page.next_cursor}


@step_type(
    "data-store.count",
    schema=fields(["tableName"], {"tableName": TABLE, "where": WHERE, "filterMode": FILTER_MODE}),
    output=fields(["count"], {"count": {"type": "integer", "description": "How many rows match."}}),
    example={"tableName": "pending_ops", "where": [{"field": "status", "operator": "equals", "value": "pending"}]},
    exact=("where",),
    touches=False,
    joins=True,
)
def count(call: StepCall, input: JsonObject) -> JsonObject:
    """Count the rows that match."""
    return {"count": call.store.count(_text(input, "tableName"), _where(input))}


@step_type(
    "data-store.delete",
    schema=fields(
        ["tableName"],
        {
            "tableName": TABLE,
            "key": KEY,
            "where": WHERE,
            "filterMode": FILTER_MODE,
            "all": {"type": "boolean", "default": False, "description": "Needed to remove every row of a table."},
        },
        oneOf=[{"required": ["key"]}, {"anyOf": [{"required": ["where"]}, {"required": ["all"]}]}],
    ),
    output=fields(["deleted"], {"deleted": {"type": "integer", "description": "How many rows were removed."}}),
    example={"tableName": "sessions", "where": [{"field": "lastSeen", "operator": "olderThan", "value": "30d"}]},
    exact=("where",),
    transactional=True,
    joins=True,
)
def delete(call: StepCall, input: JsonObject) -> JsonObject:
    """Remove one row by its key, or the rows that match.

    An empty `where` is refused unless `all` is true.
    """
    table = _text(input, "tableName")
    if "key" in input:
        return {"deleted": call.store.delete(table, key_is(_text(input, "key")))}
    condition = _where(input)
    if condition == EVERY and input.get("all") is not True:
        raise FilterInvalid("where", "it is empty and would remove every row; say `all: true` if that is meant")
    return {"deleted": call.store.delete(table, condition)}


@step_type(
    "data-store.atomic-claim",
    schema=fields(
        ["tableName"],
        {
            "tableName": TABLE,
            "where": WHERE,
            "filterMode": FILTER_MODE,
            "orderBy": ORDER_BY,
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_PAGE,
                "default": 1,
                "description": "At most so many rows.",
            },
            "set": {**SET, "description": "Changes that add to what a claim writes, or replace it."},
            "renewEvery": {
                "type": ["string", "boolean"],
                "default": "60s",
                "description": "How often `claimedAt` is renewed while this execution lives; false: never.",
            },
        },
    ),
    output=fields(
        ["claimed", "count"],
        {
            "claimed": {
                "type": "array",
                "items": ROW,
                "description": "The rows as they are after the claim, in order.",
            },
            "count": {"type": "integer", "description": "How many rows were claimed."},
        },
    ),
    example={
        "tableName": "pending_ops",
        "where": [{"field": "status", "operator": "equals", "value": "pending"}],
        "orderBy": {"field": "createdAt", "direction": "asc"},
        "limit": 10,
    },
    exact=("where",),
    transactional=True,
    joins=True,
)
def atomic_claim(call: StepCall, input: JsonObject) -> JsonObject:
    """Take rows for this execution, so that no other one gets them.

    One statement finds up to `limit` matching rows in order and writes `status = "in_flight"`, `claimedAt`,
    `claimedBy` (the execution's id) and a `claimCount` one higher. Two claims at one moment get different rows. It can
    claim rows that are `in_flight` again: that is how rows of a dispatcher that died are recovered.
    """
    table = _text(input, "tableName")
    every = _renew_every(input)
    rows = call.store.claim(
        table,
        _where(input),
        parse_order(input.get("orderBy", [])),
        limit=_limit(input, 1),
        holder=call.execution_id,
        changes=_changes(input, required=False),
    )
    held = {row.key: row.claim_count for row in rows if _is_held(row, call.execution_id)}
    if every is not None and held:
        call.engine.keep_claimed(table, held, every)
    return {"claimed": _rows(rows), "count": len(rows)}


@step_type(
    "data-store.atomic-update",
    schema=fields(
        ["tableName", "key", "set"],
        {
            "tableName": TABLE,
            "key": KEY,
            "where": {**WHERE, "description": "The guard: the row is changed only if it matches."},
            "filterMode": FILTER_MODE,
            "set": SET,
            "upsert": {"type": "boolean", "default": False, "description": "Make the row if it is not there."},
        },
    ),
    output=fields(
        ["updated"],
        {
            "updated": {"type": "boolean", "description": "Whether the row was changed."},
            "row": {"anyOf": [ROW, {"type": "null"}], "description": "The row as it is now."},
            "reason": {"enum": ["not-found", "guard", None], "description": "Why nothing was changed."},
        },
    ),
    example={
        "tableName": "pending_ops",
        "key": "<< $item.key >>",
        "where": [{"field": "claimedBy", "operator": "equals", "value": "<< $execution.id >>"}],
        "set": [{"field": "status", "operation": "set", "value": "done"}],
    },
    exact=("where",),
    transactional=True,
    joins=True,
)
def atomic_update(call: StepCall, input: JsonObject) -> JsonObject:
    """Change fields of one row, if it matches a guard.

    Guard and change are one statement. A guard that does not hold is no error: `updated` is false, and `reason` says
    why.
    """
    updated = call.store.update(
        _text(input, "tableName"),
        _text(input, "key"),
        _where(input),
        _changes(input, required=True),
        upsert=input.get("upsert") is True,
    )
    row = None if updated.row is None else updated.row.as_json()
    return {"updated": updated.updated, "row": row, "reason": updated.reason}


_duration: Final = lru_cache(64)(parse_duration)


def _text(input: JsonObject, name: str) -> str:
    value = input[name]
    assert isinstance(value, str)
    return value


def _limit(input: JsonObject, default: int) -> int:
    limit = input.get("limit", default)
    assert isinstance(limit, int)
    return limit


def _where(input: JsonObject) -> Condition:
    return parse_where(input.get("where", []), str(input.get("filterMode", "all")))


def _changes(input: JsonObject, *, required: bool) -> tuple[Change, ...]:
    changes = parse_changes(input.get("set", []))
    if required and not changes:
        raise FilterInvalid("set", "it is empty: name at least one change")
    return changes


def _rows(rows: Sequence[Row]) -> list[Json]:
    return [row.as_json() for row in rows]


def _is_held(row: Row, holder: str) -> bool:
    value = row.value
    return isinstance(value, dict) and value.get("claimedBy") == holder and value.get("status") == "in_flight"


def _renew_every(input: JsonObject) -> float | None:
    """Seconds between renewals; None where they are turned off."""
    every = input.get("renewEvery", "60s")
    if every is False:
        return None
    duration = _duration(every) if isinstance(every, str) else None
    if duration is None or duration.total_seconds() < 0.1:
        message = f'renewEvery: {shown(every)} is no duration of at least 100 ms such as "60s"; false turns renewal off'
        raise StepFailed(message, code="invalid_input", retryable=False)
    return duration.total_seconds()
