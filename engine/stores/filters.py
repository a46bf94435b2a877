"""Conditions on rows: what ``where`` says, as records, and the plain reading that every adapter agrees with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Protocol

from flo.engine.comparison import equal, order
from flo.engine.errors import FilterInvalid, did_you_mean
from flo.engine.frozen import frozen
from flo.engine.instants import parse_duration, read_instant, write_instant
from flo.engine.stores.fields import ABSENT, Absent, check_keys, follow, read_path
from flo.engine.stores.limits import check_storable
from flo.engine.stores.remembering import remembering
from flo.engine.values import Json, kind_of, shown

COLUMNS: Final = ("key", "createdAt", "updatedAt", "expiresAt", "claimCount")
"""The row's own fields; every other field leads into its value."""

_MAX_GROUPS: Final = 32


class Operator(StrEnum):
    """What a test asks of a field."""

    EQUALS = "equals"
    NOT_EQUALS = "notEquals"
    LT = "lt"
    LTE = "lte"
    GT = "gt"
    GTE = "gte"
    IN = "in"
    NOT_IN = "notIn"
    CONTAINS = "contains"
    NOT_CONTAINS = "notContains"
    STARTS_WITH = "startsWith"
    ENDS_WITH = "endsWith"
    SET = "set"
    NOT_SET = "notSet"
    IS_NULL = "isNull"
    OLDER_THAN = "olderThan"
    NEWER_THAN = "newerThan"


_O = Operator
_SPELLINGS: Final[Mapping[str, Operator]] = {
    **{operator.value: operator for operator in _O},
    "eq": _O.EQUALS,
    "ne": _O.NOT_EQUALS,
}
_UNARY: Final = frozenset({_O.SET, _O.NOT_SET, _O.IS_NULL})
_ORDERING: Final = frozenset({_O.LT, _O.LTE, _O.GT, _O.GTE})
_LISTS: Final = frozenset({_O.IN, _O.NOT_IN})
_AGES: Final = frozenset({_O.OLDER_THAN, _O.NEWER_THAN})


@frozen
class Field:
    """A field of a row: ``column`` names a row field, else ``path`` leads into the value."""

    text: str
    column: str | None
    path: tuple[str, ...]

    @property
    def is_instant(self) -> bool:
        """Whether the engine itself writes this field, as an instant."""
        return self.column in ("createdAt", "updatedAt", "expiresAt") or self.path == ("claimedAt",)


@frozen
class Test:
    """One test of one field. ``value`` is the operand as it came (None for the operators that take none)."""

    __test__ = False

    field: Field
    operator: Operator
    value: Json = None


@frozen
class All:
    """Holds when each of its conditions holds; an empty one always holds."""

    conditions: tuple[Condition, ...] = ()


@frozen
class AnyOf:
    """Holds when one of its conditions holds; an empty one never does."""

    conditions: tuple[Condition, ...] = ()


Condition = Test | All | AnyOf
EVERY = All()


def key_is(key: str) -> Condition:
    """The condition that only the row of this key meets: ``equals`` alone would also find the same instant in another
    spelling."""
    field = Field("key", "key", ())
    return All((Test(field, Operator.EQUALS, key), Test(field, Operator.STARTS_WITH, key)))


class RowLike(Protocol):
    """What a condition looks at."""

    @property
    def key(self) -> str: ...
    @property
    def value(self) -> Json: ...
    @property
    def created_at(self) -> datetime: ...
    @property
    def updated_at(self) -> datetime: ...
    @property
    def expires_at(self) -> datetime | None: ...
    @property
    def claim_count(self) -> int: ...


@remembering
def parse_where(where: Json, mode: str = "all", place: str = "where") -> Condition:
    """Read ``where`` and ``filterMode``. Raises ``FilterInvalid`` with the place of what is wrong and the nearest
    right word.

    A list of no conditions is ``EVERY`` in both modes. What says the same is written the same: a group of one is its
    one condition, and a group that always holds is ``EVERY``.
    """
    if mode not in ("all", "any"):
        raise FilterInvalid("filterMode", f'it must be "all" or "any"; {shown(mode)} came')
    if isinstance(where, Mapping):
        return _condition(where, place, 0)
    conditions = _conditions(where, place, 0)
    if not conditions:
        return EVERY
    return _all(conditions) if mode == "all" else _any(conditions)


def parse_field(text: Json, place: str = "field") -> Field:
    """Read a field: a row field, ``value`` for the whole value, ``value.x`` to reach past a row field, else a path.

    A name in brackets is never a row field. Raises ``FilterInvalid``.
    """
    path, bare = read_path(text, place)
    assert isinstance(text, str)
    if bare and path[0] == "value":
        return Field(text, None, path[1:])
    if bare and len(path) == 1 and path[0] in COLUMNS:
        return Field(text, path[0], ())
    return Field(text, None, path)


def _conditions(where: Json, place: str, depth: int) -> tuple[Condition, ...]:
    if isinstance(where, str) or not isinstance(where, Sequence):
        raise FilterInvalid(place, f"it must be a list of conditions; {kind_of(where)} came")
    return tuple(_condition(held, f"{place}[{index}]", depth) for index, held in enumerate(where))


def _condition(condition: Json, place: str, depth: int) -> Condition:
    if not isinstance(condition, Mapping):
        raise FilterInvalid(place, f"it must be a condition {{field, operator, value}}; {kind_of(condition)} came")
    if depth > _MAX_GROUPS:
        raise FilterInvalid(place, f"groups nest deeper than {_MAX_GROUPS}")
    if "field" not in condition and len(condition) == 1:
        if "all" in condition:
            return _all(_conditions(condition["all"], f"{place}.all", depth + 1))
        if "any" in condition:
            return _any(_conditions(condition["any"], f"{place}.any", depth + 1))
    known = ("field", "operator", "value", *(() if "field" in condition else ("all", "any")))
    check_keys(condition, known, place)
    if "field" not in condition:
        raise FilterInvalid(place, "it has no field; a condition is {field, operator, value}, a group {all} or {any}")
    return _test(condition, place)


def _test(condition: Mapping[str, Json], place: str) -> Test:
    field = parse_field(condition["field"], f"{place}.field")
    if "operator" not in condition:
        raise FilterInvalid(place, f"it has no operator; {', '.join(_O)} are known")
    operator = _operator(condition["operator"], f"{place}.operator")
    operand = condition.get("value")
    if operator in _UNARY:
        if operand is not None and operand is not True:
            raise FilterInvalid(f"{place}.value", f"{operator} takes no value; {shown(operand)} came")
        return Test(field, operator)
    if "value" not in condition:
        raise FilterInvalid(place, f"{operator} needs a value, and there is none; use isNull or notSet to find those")
    check_storable(operand, f"{place}.value")
    _check_operand(field, operator, operand, f"{place}.value")
    return Test(field, operator, operand)


def _operator(name: Json, place: str) -> Operator:
    if isinstance(name, str):
        if name in _SPELLINGS:
            return _SPELLINGS[name]
        raise FilterInvalid(place, f"no operator {name!r}{did_you_mean(name, _SPELLINGS)}")
    raise FilterInvalid(place, f"it must be the name of an operator; {kind_of(name)} came")


def _check_operand(field: Field, operator: Operator, operand: Json, place: str) -> None:
    if operator in _LISTS and (isinstance(operand, str) or not isinstance(operand, Sequence)):
        raise FilterInvalid(place, f"{operator} needs a list; {kind_of(operand)} came")
    if operator in _AGES and parse_duration(operand) is None:
        raise FilterInvalid(place, f'{operator} needs a duration such as "5m"; {shown(operand)} came')
    if operator in _ORDERING and field.is_instant and isinstance(operand, str) and read_instant(operand) is None:
        raise FilterInvalid(place, f"{shown(operand)} is no instant; write 2026-01-31T12:00:00Z, or use olderThan")


def _all(conditions: tuple[Condition, ...]) -> Condition:
    needed = tuple(condition for condition in conditions if condition != EVERY)
    return needed[0] if len(needed) == 1 else All(needed)


def _any(conditions: tuple[Condition, ...]) -> Condition:
    if EVERY in conditions:
        return EVERY
    return conditions[0] if len(conditions) == 1 else AnyOf(conditions)


def matches(condition: Condition, row: RowLike, now: datetime) -> bool:
    """Say whether ``condition`` holds of ``row`` at the instant ``now``: the plain reading."""
    match condition:
        case Test(field, operator, operand):
            return holds(operator, find(field, row), operand, now)
        case All(conditions):
            return all(matches(held, row, now) for held in conditions)
        case AnyOf(conditions):
            return any(matches(held, row, now) for held in conditions)


def find(field: Field, row: RowLike) -> Json | Absent:
    """What a field of a row holds. Instants of the row are text in the stored form; an ``expiresAt`` that there is not
    is null."""
    match field.column:
        case None:
            return follow(row.value, field.path)
        case "key":
            return row.key
        case "createdAt":
            return write_instant(row.created_at)
        case "updatedAt":
            return write_instant(row.updated_at)
        case "expiresAt":
            return None if row.expires_at is None else write_instant(row.expires_at)
        case _:
            return row.claim_count


def holds(operator: Operator, found: Json | Absent, operand: Json, now: datetime) -> bool:
    """Say whether one test holds of what was found.

    =============  =======  ======================  ======================================================
    operator       missing  null                    everything else
    =============  =======  ======================  ======================================================
    equals         no       if the operand is null  if ``comparison.equal``: same type, instants by instant
    in             no       if the list holds null  if one of the list is equal; a list of none: no
    contains       no       no                      text in text (empty text is in every text); an equal
                                                    element in a list; else no
    startsWith     no       no                      text and text only, by character; also ``endsWith``
    lt lte gt gte  no       no                      two numbers, two instants, two texts by code point; else no
    olderThan      no       no                      an instant before now less the duration
    newerThan      no       no                      an instant after now less the duration
    set            no       yes                     yes
    isNull         no       yes                     no
    =============  =======  ======================  ======================================================

    ``notEquals``, ``notIn``, ``notContains`` and ``notSet`` hold exactly where their opposites do not: of missing and
    null fields too.
    """
    match operator:
        case _O.EQUALS:
            return found is not ABSENT and equal(found, operand)
        case _O.IN:
            return found is not ABSENT and _is_among(found, operand)
        case _O.CONTAINS:
            return _contains(found, operand)
        case _O.NOT_EQUALS:
            return not holds(_O.EQUALS, found, operand, now)
        case _O.NOT_IN:
            return not holds(_O.IN, found, operand, now)
        case _O.NOT_CONTAINS:
            return not _contains(found, operand)
        case _O.STARTS_WITH:
            return isinstance(found, str) and isinstance(operand, str) and found.startswith(operand)
        case _O.ENDS_WITH:
            return isinstance(found, str) and isinstance(operand, str) and found.endswith(operand)
        case _O.SET:
            return found is not ABSENT
        case _O.NOT_SET:
            return found is ABSENT
        case _O.IS_NULL:
            return found is None
        case _O.OLDER_THAN | _O.NEWER_THAN:
            return _by_age(operator, found, operand, now)
        case _:
            return _in_order(operator, found, operand)


def _is_among(found: Json, operand: Json) -> bool:
    return isinstance(operand, Sequence) and any(equal(found, held) for held in operand)


def _contains(found: Json | Absent, operand: Json) -> bool:
    if isinstance(found, str):
        return isinstance(operand, str) and operand in found
    return isinstance(found, Sequence) and any(equal(held, operand) for held in found)


def _by_age(operator: Operator, found: Json | Absent, operand: Json, now: datetime) -> bool:
    instant = read_instant(found)
    if instant is None:
        return False
    bound = read_instant(write_instant(now - (parse_duration(operand) or timedelta())))
    assert bound is not None
    return instant < bound if operator is _O.OLDER_THAN else instant > bound


def _in_order(operator: Operator, found: Json | Absent, operand: Json) -> bool:
    sign = order(found, operand)
    match operator:
        case _O.LT:
            return sign == -1
        case _O.LTE:
            return sign in (-1, 0)
        case _O.GT:
            return sign == 1
        case _:
            return sign in (1, 0)
