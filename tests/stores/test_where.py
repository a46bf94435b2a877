"""How ``where`` is read, and what is said of one that means nothing."""

from __future__ import annotations

import pytest

from flo.engine.errors import FilterInvalid
from flo.engine.stores.base import DataStore
from flo.engine.stores.filters import EVERY, All, AnyOf, Condition, Field, Operator, Test, parse_field, parse_where
from flo.engine.values import Json

A = Test(Field("a", None, ("a",)), Operator.EQUALS, 1)
B = Test(Field("b", None, ("b",)), Operator.SET)
ASKS_A: Json = {"field": "a", "operator": "equals", "value": 1}
ASKS_B: Json = {"field": "b", "operator": "set"}


@pytest.mark.parametrize(
    ("text", "column", "path"),
    [
        ("status", None, ("status",)),
        ("payload.user.id", None, ("payload", "user", "id")),
        ("value", None, ()),
        ("value.key", None, ("key",)),
        ("value.value", None, ("value",)),
        ("value.createdAt", None, ("createdAt",)),
        ("createdAt.x", None, ("createdAt", "x")),
        ("key", "key", ()),
        ("createdAt", "createdAt", ()),
        ("updatedAt", "updatedAt", ()),
        ("expiresAt", "expiresAt", ()),
        ("claimCount", "claimCount", ()),
        ("claimedAt", None, ("claimedAt",)),
        ('["a.b"]', None, ("a.b",)),
        ("['a.b']", None, ("a.b",)),
        ('["key"]', None, ("key",)),
        ('payload["a.b"].c', None, ("payload", "a.b", "c")),
        ('payload["a\\"b\\\\"]', None, ("payload", 'a"b\\')),
        ("items[0].id", None, ("items", "0", "id")),
        ("items.-1", None, ("items", "-1")),
        ("items[-1]", None, ("items", "-1")),
        ("größe.x y-z", None, ("größe", "x y-z")),
    ],
)
def test_a_field_is_a_row_field_or_a_path(text: str, column: str | None, path: tuple[str, ...]) -> None:
    assert parse_field(text) == Field(text, column, path)


@pytest.mark.parametrize(
    "text", ["", ".a", "a.", "a..b", "a[b]", "a[0", "a]", "a[01]", 'a["b', "a[0]b", None, 5, ["a"]]
)
def test_a_field_that_cannot_be_read_is_an_error(text: Json) -> None:
    with pytest.raises(FilterInvalid) as caught:
        parse_where([{"field": text, "operator": "set"}])
    assert caught.value.place == "where[0].field"


def test_a_path_has_a_limit() -> None:
    assert len(parse_field(".".join("a" * 200)).path) == 200
    with pytest.raises(FilterInvalid, match="201 segments; the limit is 200"):
        parse_field(".".join("a" * 201))


@pytest.mark.parametrize(
    ("where", "mode", "condition"),
    [
        ([], "all", EVERY),
        ([], "any", EVERY),
        ([ASKS_A], "all", A),
        ([ASKS_A], "any", A),
        (ASKS_A, "all", A),
        ([ASKS_A, ASKS_B], "all", All((A, B))),
        ([ASKS_A, ASKS_B], "any", AnyOf((A, B))),
        ([ASKS_A, {"any": [ASKS_A, ASKS_B]}], "all", All((A, AnyOf((A, B))))),
        ([ASKS_A, {"all": [ASKS_A, ASKS_B]}], "any", AnyOf((A, All((A, B))))),
        ({"any": [ASKS_A, {"all": [ASKS_B]}]}, "all", AnyOf((A, B))),
        ([{"any": []}], "all", AnyOf()),
    ],
)
def test_conditions_nest_in_groups(where: Json, mode: str, condition: Condition) -> None:
    assert parse_where(where, mode) == condition


@pytest.mark.parametrize(
    "where", [[{"all": []}], [{"all": [{"all": []}]}], {"all": []}, [{"any": [{"all": []}, ASKS_A]}]]
)
def test_what_always_holds_is_written_as_no_condition(where: Json) -> None:
    assert parse_where(where) == EVERY


def test_short_spellings_are_the_long_ones() -> None:
    operators = [parse_where([{"field": "a", "operator": short, "value": 1}]) for short in ("eq", "ne")]
    assert [held.operator for held in operators if isinstance(held, Test)] == [Operator.EQUALS, Operator.NOT_EQUALS]


def nested(depth: int) -> Json:
    where: Json = ASKS_A
    for _ in range(depth):
        where = {"all": [where]}
    return [where]


def test_groups_nest_to_a_limit() -> None:
    assert parse_where(nested(32)) == A
    with pytest.raises(FilterInvalid, match="groups nest deeper than 32"):
        parse_where(nested(33))


@pytest.mark.parametrize(
    ("where", "place", "message"),
    [
        (None, "where", "it must be a list of conditions; null came"),
        ("status", "where", "it must be a list of conditions; text came"),
        (["status"], "where[0]", "it must be a condition {field, operator, value}; text came"),
        ([{}], "where[0]", "it has no field"),
        ([ASKS_B, {"operator": "set"}], "where[1]", "it has no field"),
        ([{"field": "a"}], "where[0]", "it has no operator; equals, notEquals"),
        ([{"field": "a", "operator": "equal", "value": 1}], "where[0].operator", "did you mean 'equals'?"),
        ([{"field": "a", "operator": "Contains", "value": 1}], "where[0].operator", "did you mean 'contains'?"),
        ([{"field": "a", "operator": 5, "value": 1}], "where[0].operator", "it must be the name of an operator"),
        ([{"field": "a", "operater": "set"}], "where[0]", "unknown key 'operater'; did you mean 'operator'?"),
        ([{"field": "a", "operator": "equals"}], "where[0]", "equals needs a value, and there is none"),
        ([{"any": [{"field": "a", "operator": "lt"}]}], "where[0].any[0]", "lt needs a value"),
        ([{"all": ASKS_A}], "where[0].all", "it must be a list of conditions; an object came"),
        ([{"all": [], "any": []}], "where[0]", "it has no field"),
        ([{"all": [], "field": "a", "operator": "set"}], "where[0]", "unknown key 'all'"),
        ([{"field": "a", "operator": "in", "value": "pending"}], "where[0].value", "in needs a list; text came"),
        ([{"field": "a", "operator": "notIn", "value": None}], "where[0].value", "notIn needs a list; null came"),
        (
            [{"field": "a", "operator": "olderThan", "value": 5}],
            "where[0].value",
            'needs a duration such as "5m"; 5 came',
        ),
        ([{"field": "a", "operator": "newerThan", "value": "soon"}], "where[0].value", "needs a duration"),
        ([{"field": "a", "operator": "set", "value": False}], "where[0].value", "set takes no value; false came"),
        (
            [{"field": "createdAt", "operator": "lt", "value": "yesterday"}],
            "where[0].value",
            '"yesterday" is no instant',
        ),
        ([{"field": "claimedAt", "operator": "gte", "value": ""}], "where[0].value", '"" is no instant'),
        ([{"field": "updatedAt", "operator": "gt", "value": "2026-01-01"}], "where[0].value", "is no instant"),
    ],
)
def test_a_condition_that_means_nothing_is_an_error_with_its_place(where: Json, place: str, message: str) -> None:
    with pytest.raises(FilterInvalid) as caught:
        parse_where(where)
    assert caught.value.place == place
    assert message in caught.value.message
    assert not caught.value.retryable


def test_the_mode_is_one_of_two() -> None:
    with pytest.raises(FilterInvalid, match='filterMode: it must be "all" or "any"; "both" came'):
        parse_where([], "both")


@pytest.mark.parametrize(
    ("where", "mode", "keys"),
    [
        ([], "all", "abcde"),
        ([{"any": []}], "all", ""),
        ([{"field": "n", "operator": "gt", "value": 1}, {"field": "s", "operator": "eq", "value": "x"}], "all", "b"),
        ([{"field": "n", "operator": "gt", "value": 1}, {"field": "s", "operator": "eq", "value": "x"}], "any", "abd"),
        ([{"any": [{"field": "n", "operator": "eq", "value": 1}, {"field": "n", "operator": "notSet"}]}], "all", "ace"),
        ([{"field": "value", "operator": "equals", "value": [7, [8]]}], "all", "e"),
        ([{"field": "value[1][0]", "operator": "equals", "value": 8}], "all", "e"),
        ([{"field": "value.-2", "operator": "equals", "value": 7}], "all", "e"),
        ([{"field": "value.2", "operator": "set"}], "all", ""),
        ([{"field": "value.00", "operator": "set"}], "all", ""),
        ([{"field": "value.-0", "operator": "set"}], "all", ""),
        ([{"field": "value.+1", "operator": "set"}], "all", ""),
        ([{"field": "value.99999999999999999999", "operator": "set"}], "all", ""),
        ([{"field": "deep.0", "operator": "equals", "value": "key"}], "all", "c"),
        ([{"field": 'deep["a.b"].c', "operator": "equals", "value": "dot"}], "all", "c"),
        ([{"field": "deep.a.b", "operator": "set"}], "all", ""),
        ([{"field": "s.length", "operator": "set"}], "all", ""),
        ([{"field": "value.key", "operator": "equals", "value": "inner"}], "all", "d"),
        ([{"field": "key", "operator": "in", "value": ["a", "e", "z"]}], "all", "ae"),
        (
            [{"field": "key", "operator": "equals", "value": "b"}, {"field": "n", "operator": "lt", "value": 3}],
            "all",
            "b",
        ),
        ([{"field": "status", "operator": "startsWith", "value": "l" * 200}], "all", "a"),
        ([{"field": "status", "operator": "equals", "value": "l" * 200}], "all", ""),
        ([{"field": "status", "operator": "equals", "value": "l" * 201}], "all", "a"),
        ([{"field": "status", "operator": "notEquals", "value": "l" * 201}], "all", "bcde"),
    ],
)
def test_every_store_finds_the_rows_that_match(data: DataStore, where: Json, mode: str, keys: str) -> None:
    rows: dict[str, Json] = {
        "a": {"n": 1, "s": "x", "status": "l" * 201},
        "b": {"n": 2, "s": "x"},
        "c": {"deep": {"0": "key", "a.b": {"c": "dot"}}},
        "d": {"n": 3, "s": "y", "key": "inner"},
        "e": [7, [8]],
    }
    data.set_many("t", list(rows.items()))
    data.set("other", "a", {"n": 1, "s": "x"})
    condition = parse_where(where, mode)
    assert "".join(row.key for row in data.query("t", condition, limit=10).rows) == keys
    assert data.count("t", condition) == len(keys)
    assert data.delete("t", condition) == len(keys)
    assert data.count("t", EVERY) == len(rows) - len(keys)
    assert data.count("other", EVERY) == 1
