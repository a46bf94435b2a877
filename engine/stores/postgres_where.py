"""Conditions as expressions of PostgreSQL that give the plain reading's answers (``filters.holds``).

An expression may be NULL where it does not hold, and is never negated as it stands: negations are two-valued.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, cast

from flo.engine.instants import Instant, parse_duration, read_instant
from flo.engine.stores.claiming import STATUS_LENGTH
from flo.engine.stores.filters import All, AnyOf, Condition, Field, Operator, Test
from flo.engine.stores.postgres_statement import Values, field_json
from flo.engine.values import Json

_O = Operator
_OPPOSITE: Final = {_O.NOT_EQUALS: _O.EQUALS, _O.NOT_IN: _O.IN, _O.NOT_CONTAINS: _O.CONTAINS, _O.NOT_SET: _O.SET}
_SIGNS: Final = {_O.LT: "<", _O.LTE: "<=", _O.GT: ">", _O.GTE: ">=", _O.OLDER_THAN: "<", _O.NEWER_THAN: ">"}
_MOMENTS: Final = {"createdAt": "r.created_at", "updatedAt": "r.updated_at", "expiresAt": "r.expires_at"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_ONE_SECONDS: Final = -62_135_683_200
"""``flo.instant`` counts from the day before year 1, so that no offset makes it negative."""


def where_sql(condition: Condition, values: Values) -> str:
    """The expression that holds where ``condition`` does. Values are bound in ``values``."""
    match condition:
        case All(conditions):
            return _joined(conditions, "AND", "true", values)
        case AnyOf(conditions):
            return _joined(conditions, "OR", "false", values)
        case Test(field, operator, operand):
            if opposite := _OPPOSITE.get(operator):
                return f"NOT coalesce({_test(field, opposite, operand, values)}, false)"
            return _test(field, operator, operand, values)


def _joined(conditions: Sequence[Condition], word: str, none: str, values: Values) -> str:
    return f"({f' {word} '.join(where_sql(held, values) for held in conditions)})" if conditions else none


def _test(field: Field, operator: Operator, operand: Json, values: Values) -> str:
    if field.column in _MOMENTS and (fast := _moment_test(_MOMENTS[field.column], operator, operand, values)):
        return fast
    if operator is _O.EQUALS:
        return _equals(field, operand, values)
    found = field_json(field, values)
    match operator:
        case _O.SET:
            return f"({found} IS NOT NULL)"
        case _O.IS_NULL:
            return f"({found} = 'null'::jsonb)"
        case _O.IN:
            return _among(field, cast(Sequence[Json], operand), values)
        case _O.CONTAINS:
            return _contains(found, operand, values)
        case _O.STARTS_WITH | _O.ENDS_WITH:
            return _edge(found, operator, operand, values)
        case _O.OLDER_THAN | _O.NEWER_THAN:
            bound = f"(SELECT flo.instant(flo.rfc3339({_age_bound(operand, values)})))"
            return f'(flo.instant({_text(found)}) COLLATE "C" {_SIGNS[operator]} {bound})'
        case _:
            instant = values.bind(_sortable(operand), "text")
            return f"(flo.compare({found}, {values.json(operand)}, {instant}) {_SIGNS[operator]} 0)"


def _text(found: str) -> str:
    """The text that is found; NULL where it is no text."""
    return f"CASE WHEN jsonb_typeof({found}) = 'string' THEN {found} #>> '{{}}' END"


def _equals(field: Field, operand: Json, values: Values) -> str:
    instant = _sortable(operand)
    if instant is not None:
        return f"(flo.instant({_text(field_json(field, values))}) = {values.bind(instant, 'text')})"
    if isinstance(operand, str) and field.column == "key":
        return f"(r.key = {values.bind(operand, 'text')})"
    if isinstance(operand, str) and is_status(field):
        indexed = f"(r.status = {values.bind(operand[:STATUS_LENGTH], 'text')})"
        if len(operand) < STATUS_LENGTH:
            return indexed
        return f"({indexed} AND {field_json(field, values)} = {values.json(operand)})"
    return f"({field_json(field, values)} = {values.json(operand)})"


def is_status(field: Field) -> bool:
    """Whether the field is the one that has a column and an index of its own."""
    return field.column is None and field.path == ("status",)


def _among(field: Field, operands: Sequence[Json], values: Values) -> str:
    """One test for all plain values of a list, however long it is, and one for each instant."""
    plain = [operand for operand in operands if _sortable(operand) is None]
    tests = [_equals(field, operand, values) for operand in operands if _sortable(operand) is not None]
    texts = [operand for operand in plain if isinstance(operand, str) and len(operand) < STATUS_LENGTH]
    if len(texts) == len(plain) and (field.column == "key" or is_status(field)):
        column = "r.key" if field.column == "key" else "r.status"
        tests.append(f"({column} = ANY ({values.bind(texts, 'text[]')}))")
    elif plain:
        several = f"ARRAY(SELECT jsonb_array_elements({values.json(plain)}))"
        tests.append(f"({field_json(field, values)} = ANY ({several}))")
    return f"({' OR '.join(tests)})" if tests else "false"


def _contains(found: str, operand: Json, values: Values) -> str:
    elements = f"jsonb_array_elements(CASE WHEN jsonb_typeof({found}) = 'array' THEN {found} ELSE '[]'::jsonb END)"
    instant = _sortable(operand)
    if instant is None:
        equal = f"e.value = {values.json(operand)}"
    else:
        equal = f"flo.instant({_text('e.value')}) = {values.bind(instant, 'text')}"
    tests = [f"EXISTS (SELECT FROM {elements} AS e (value) WHERE {equal})"]
    if isinstance(operand, str):
        tests.append(f"strpos({_text(found)}, {values.bind(operand, 'text')}) > 0")
    return f"({' OR '.join(tests)})"


def _edge(found: str, operator: Operator, operand: Json, values: Values) -> str:
    if not isinstance(operand, str):
        return "false"
    side = "left" if operator is _O.STARTS_WITH else "right"
    return f'({side}({_text(found)}, {len(operand)}) COLLATE "C" = {values.bind(operand, "text")})'


def _moment_test(column: str, operator: Operator, operand: Json, values: Values) -> str | None:
    """A test of a row's own instant, which has microseconds, with one that may have more digits."""
    if operator in (_O.OLDER_THAN, _O.NEWER_THAN):
        return f"({column} {_SIGNS[operator]} {_age_bound(operand, values)})"
    instant = read_instant(operand)
    if instant is None or operator not in (_O.EQUALS, *_SIGNS):
        return None
    below, exact = _microseconds(instant)
    if operator is _O.EQUALS:
        return f"({column} = {values.bind(below, 'timestamptz')})" if exact else "false"
    sign = _SIGNS[operator]
    if not exact:  # between two microseconds: at or before the one, or after it
        sign = "<=" if operator in (_O.LT, _O.LTE) else ">"
    return f"({column} {sign} {values.bind(below, 'timestamptz')})"


def _microseconds(instant: Instant) -> tuple[datetime, bool]:
    """The last microsecond not after an instant, and whether it is that instant. What lies outside the calendar of a
    row comes to its edge."""
    seconds, fraction = instant
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=int(fraction[:6].ljust(6, "0"))), len(fraction) <= 6
    except OverflowError:
        return (datetime.min if seconds < 0 else datetime.max).replace(tzinfo=UTC), False


def _age_bound(operand: Json, values: Values) -> str:
    return f"(:now - {values.bind(parse_duration(operand), 'interval')})"


def _sortable(operand: Json) -> str | None:
    """What ``flo.instant`` gives for an operand."""
    instant = read_instant(operand)
    return None if instant is None else f"{instant[0] - _YEAR_ONE_SECONDS:012d}.{instant[1]}"
