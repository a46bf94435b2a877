"""The truth table of conditions: what each operator says of each kind of value, wherever it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from flo.engine.stores.fields import ABSENT, Absent
from flo.engine.stores.filters import Operator
from flo.engine.values import Json

NOW = datetime(2026, 4, 1, 12, 0, tzinfo=UTC)
"""The instant at which the table is read."""


@dataclass(frozen=True)
class Case:
    """Whether ``operator`` with ``operand`` holds of a field that holds ``stored``."""

    operator: Operator
    stored: Json | Absent
    operand: Json
    holds: bool


TEN = "2026-04-01T10:00:00Z"
MOMENTS: tuple[str, ...] = (
    TEN,
    "2026-04-01T10:00:00+00:00",
    "2026-04-01T12:00:00+02:00",
    "2026-04-01 10:00:00.000Z",
    "2026-04-01t10:00:00z",
    "2026-04-01T10:00:00.0000000000000Z",
)
"""One instant in many spellings."""

_EVERYTHING: tuple[Json | Absent, ...] = (
    ABSENT,
    None,
    True,
    False,
    0,
    1,
    -1.5,
    "",
    "x",
    "1",
    TEN,
    [],
    [1],
    {},
    {"a": 1},
)
"""One value of each kind, and those that are easily confused."""

_EQUAL: tuple[tuple[Json, Json, bool], ...] = (
    (5, 5, True),
    (5, 5.0, True),
    (5.0, 5, True),
    (0.0, -0.0, True),
    (5, "5", False),
    ("5", 5, False),
    (" 5", "5", False),
    (1, True, False),
    (True, 1, False),
    (0, False, False),
    (False, 0, False),
    (True, True, True),
    (True, False, False),
    ("true", True, False),
    (None, None, True),
    (None, "", False),
    (None, 0, False),
    (None, False, False),
    ("null", None, False),
    ("", "", True),
    ("", None, False),
    ("x", "X", False),
    ("é", "e\u0301", False),
    ("x ", "x", False),
    ("a_b", "axb", False),
    ("50%", "500", False),
    ("it's", "it's", True),
    ('"', '"', True),
    ("\\", "\\", True),
    ("😀", "😀", True),
    (2**53, 2**53 + 1, False),
    (2**53 + 1, 2**53 + 1, True),
    (2**53 - 1, 2**53, False),
    (2**63, 2**63, True),
    (2**63, 2**63 + 1, False),
    (2**63 - 1, 2**63, False),
    (2**64, 2**64, True),
    (10**29 + 1, 10**29 + 1, True),
    (10**29 + 1, 10**29, False),
    (-(2**63), -(2**63), True),
    (10**22, 1e22, True),
    (1e300, 1e300, True),
    (0.1, 0.1, True),
    (0.1, 0.10000000000000002, False),
    (5e-324, 5e-324, True),
    (5e-324, 0, False),
    ([], [], True),
    ([], None, False),
    ([1, 2], [1, 2], True),
    ([1, 2], [2, 1], False),
    ([1], [1.0], True),
    ([1], [True], False),
    ([1], "[1]", False),
    ("[1]", [1], False),
    ({}, {}, True),
    ({}, [], False),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
    ({"a": 1}, {"a": 1, "b": None}, False),
    ({"a": 1}, {"a": True}, False),
    ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}, True),
    ([TEN], [MOMENTS[1]], False),
    (TEN, "2026-04-01T10:00:00.000001Z", False),
    ("2026-04-01T10:00:00.0000001Z", "2026-04-01T10:00:00.0000002Z", False),
    ("2026-04-01T10:00:00.00000010Z", "2026-04-01T10:00:00.0000001Z", True),
    (TEN, "2026-04-01T10:00:00", False),
    (TEN, "2026-04-01", False),
    ("2026-02-30T10:00:00Z", "2026-02-30T10:00:00+00:00", False),
    ("2026-04-01T23:30:00-01:00", "2026-04-02T00:30:00Z", True),
    *((TEN, moment, True) for moment in MOMENTS),
    *((moment, TEN, True) for moment in MOMENTS),
)

_ORDERED: tuple[tuple[Json, Json, int | None], ...] = (
    (5, 6, -1),
    (6, 5, 1),
    (5, 5, 0),
    (5, 5.0, 0),
    (5, 5.5, -1),
    (9, 10, -1),
    ("9", "10", 1),
    (5, "6", None),
    ("5", 6, None),
    ("10", 8, None),
    (True, 2, None),
    (0, True, None),
    (True, True, None),
    (None, 5, None),
    (5, None, None),
    (None, None, None),
    ("x", None, None),
    ([], [1], None),
    ([1], 5, None),
    ({}, {"a": 1}, None),
    ({}, "x", None),
    ("a", "b", -1),
    ("a", "B", 1),
    ("Z", "a", -1),
    ("", "a", -1),
    ("a", "a", 0),
    ("a", "ab", -1),
    ("é", "f", 1),
    ("\uffff", "😀", -1),
    (2**53, 2**53 + 1, -1),
    (2**53 + 1, 2**53, 1),
    (2**53 + 1, float(2**53), 1),
    (2**63 - 1, 2**63, -1),
    (2**64 + 1, 2**64, 1),
    (10**29, 10**29 + 1, -1),
    (-(10**29), 10**29, -1),
    (10**300, 1e300, 0),
    (10**300 + 1, 1e300, 1),
    (1e-7, 0, 1),
    (5e-324, 0.0, 1),
    (-0.0, 0, 0),
    (-1, -1.5, 1),
    (TEN, "2026-04-01T10:00:00+00:00", 0),
    (TEN, "2026-04-01T12:30:00+02:00", -1),
    (TEN, "2026-04-01 10:00:01Z", -1),
    (TEN, "2026-04-01T10:00:00.500Z", -1),
    (TEN, "2026-04-01T10:00:00.0000000001Z", -1),
    (TEN, "2026-04-01T11:59:59.999+02:00", 1),
    ("2026-04-01T10:00:00.9Z", "2026-04-01T10:00:00.10Z", 1),
    ("2026-04-01T10:00:00.25Z", "2026-04-01T10:00:00.250000Z", 0),
    ("2026-03-31T23:00:00-02:00", "2026-04-01T00:30:00Z", 1),
    ("0001-01-01T00:00:00Z", TEN, -1),
    ("9999-12-31T23:59:59Z", TEN, 1),
    (TEN, "yesterday", -1),
    ("2026-04-01 10:00:00", "2026-04-01T09:00:00", -1),
)

_IN: tuple[tuple[Json, Json, bool], ...] = (
    ("x", [], False),
    (None, [], False),
    ("x", ["x"], True),
    ("x", ["y", "x"], True),
    ("x", ["y"], False),
    (1, [True, "1"], False),
    (1, [1.0], True),
    (True, [1], False),
    (None, [None], True),
    (None, ["null", 0], False),
    ([1], [[1]], True),
    ([1], [1], False),
    ({"a": 1}, [{"a": 1}], True),
    (2**53 + 1, [2**53], False),
    (TEN, ["2026-04-01T12:00:00+02:00"], True),
    ("a_b", ["a%b", "axb"], False),
)

_CONTAINS: tuple[tuple[Json, Json, bool], ...] = (
    ("a_b", "a_b", True),
    ("axb", "a_b", False),
    ("50% off", "50%", True),
    ("500 off", "50%", False),
    ("abc", "b", True),
    ("abc", "B", False),
    ("É", "é", False),
    ("abc", "", True),
    ("", "", True),
    ("", "a", False),
    ("a\\b", "\\", True),
    ("it's", "'", True),
    ("a\nb", "\n", True),
    ("12", 1, False),
    ("true", True, False),
    ("null", None, False),
    (12, "1", False),
    (12, 1, False),
    (True, "t", False),
    (None, None, False),
    (None, "", False),
    ({"a": 1}, "a", False),
    ({"a": 1}, {"a": 1}, False),
    ([1, "x"], "x", True),
    ([1, "x"], "", False),
    ([1, "xy"], "x", False),
    ([1, "x"], 1.0, True),
    ([1], True, False),
    ([1], "1", False),
    ([True], 1, False),
    ([None], None, True),
    ([], None, False),
    ([[1]], [1], True),
    ([1], [1], False),
    ([[1]], 1, False),
    ([{"a": 1, "b": 2}], {"a": 1}, False),
    ([{"a": 1}], {"a": 1.0}, True),
    ([2**53], 2**53 + 1, False),
    ([TEN], MOMENTS[2], True),
)

_STARTS: tuple[tuple[Json, Json, bool], ...] = (
    ("a_b", "a_", True),
    ("axb", "a_", False),
    ("%x", "%", True),
    ("x%", "%", False),
    ("abc", "", True),
    ("", "", True),
    ("abc", "A", False),
    ("abc", "abcd", False),
    ("\\x", "\\", True),
    ("😀x", "😀", True),
    (12, "1", False),
    ("12", 1, False),
    (None, "", False),
    (["a"], "a", False),
    ({}, "", False),
)

_AGES: tuple[tuple[Json, str, bool, bool], ...] = (
    ("2026-04-01T11:54:59Z", "5m", True, False),
    ("2026-04-01T11:55:00Z", "5m", False, False),
    ("2026-04-01T11:55:00.000000001Z", "5m", False, True),
    ("2026-04-01T11:54:59.999999999Z", "5m", True, False),
    ("2026-04-01T11:55:01Z", "5m", False, True),
    ("2026-04-01 13:54:00+02:00", "5m", True, False),
    ("2026-04-01T13:56:00+02:00", "5m", False, True),
    ("2026-04-01T10:00:00Z", "2h", False, False),
    ("2026-04-01T09:00:00Z", "1h 30m", True, False),
    ("2026-04-01T11:59:59.700Z", "250ms", True, False),
    ("2027-01-01T00:00:00Z", "5m", False, True),
    ("2026-04-01T11:00:00", "5m", False, False),
    ("yesterday", "5m", False, False),
    ("", "5m", False, False),
    (0, "5m", False, False),
    (None, "5m", False, False),
    (True, "5m", False, False),
    (["2026-04-01T11:00:00Z"], "5m", False, False),
)
"""Stored, duration, olderThan, newerThan."""


def _both(yes: Operator, no: Operator, stored: Json | Absent, operand: Json, holds: bool) -> Iterator[Case]:
    yield Case(yes, stored, operand, holds)
    yield Case(no, stored, operand, not holds)


def _cases() -> Iterator[Case]:
    o = Operator
    for stored, operand, holds in _EQUAL:
        yield from _both(o.EQUALS, o.NOT_EQUALS, stored, operand, holds)
    for stored, operand, holds in _IN:
        yield from _both(o.IN, o.NOT_IN, stored, operand, holds)
    for stored, operand, holds in _CONTAINS:
        yield from _both(o.CONTAINS, o.NOT_CONTAINS, stored, operand, holds)
    for stored, operand, holds in _STARTS:
        yield Case(o.STARTS_WITH, stored, operand, holds)
        turned = [held[::-1] if isinstance(held, str) else held for held in (stored, operand)]
        yield Case(o.ENDS_WITH, turned[0], turned[1], holds)
    for stored, operand, sign in _ORDERED:
        yield Case(o.LT, stored, operand, sign == -1)
        yield Case(o.LTE, stored, operand, sign in (-1, 0))
        yield Case(o.GT, stored, operand, sign == 1)
        yield Case(o.GTE, stored, operand, sign in (0, 1))
    for stored, duration, older, newer in _AGES:
        yield Case(o.OLDER_THAN, stored, duration, older)
        yield Case(o.NEWER_THAN, stored, duration, newer)
    for stored in _EVERYTHING:
        yield from _both(o.SET, o.NOT_SET, stored, None, stored is not ABSENT)
        yield Case(o.IS_NULL, stored, None, stored is None)
    for operand in (None, True, 0, "", "x", [], {}):
        yield from _both(o.EQUALS, o.NOT_EQUALS, ABSENT, operand, False)
        yield from _both(o.CONTAINS, o.NOT_CONTAINS, ABSENT, operand, False)
        yield from _both(o.IN, o.NOT_IN, ABSENT, [operand], False)
        for operator in (o.LT, o.LTE, o.GT, o.GTE, o.STARTS_WITH, o.ENDS_WITH):
            yield Case(operator, ABSENT, operand, False)
    for operator in (o.OLDER_THAN, o.NEWER_THAN):
        yield Case(operator, ABSENT, "5m", False)


CASES: tuple[Case, ...] = tuple(_cases())
EVERYTHING = _EVERYTHING
