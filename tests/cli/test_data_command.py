"""``flo data``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flo.engine import app


@pytest.fixture
def data(flo: Any, shared_url: str) -> Callable[..., Any]:
    """``flo data`` over a store of each kind that outlives a command."""
    return lambda *arguments, **settings: flo("data", *arguments, "--store", shared_url, **settings)


def fill(data: Any, count: int, table: str = "ops") -> None:
    rows = [{"key": f"k{number:03}", "value": {"n": number, "status": "done"}} for number in range(count)]
    assert data("import", table, "-", stdin=json.dumps(rows)).code == 0


def test_a_row_comes_back_as_it_was_written(data: Any) -> None:
    value = '{"a":[1,1.0,"é\\u2028",null,18446744073709551616],"b":{"":false}}'
    written = data("set", "ops", "k é", value)
    assert (written.code, written.out, written.err) == (0, "", "'k é' is new\n")
    assert json.loads(data("get", "ops", "k é").out) == json.loads(value)
    row = data("get", "ops", "k é", "--json").json
    assert list(row) == ["key", "value", "createdAt", "updatedAt", "expiresAt", "claimCount"]
    assert (row["key"], row["value"], row["claimCount"]) == ("k é", json.loads(value), 0)


def test_set_replaces_or_leaves_as_asked(data: Any) -> None:
    assert data("set", "ops", "k", "1", "--json").json["created"] is True
    assert data("set", "ops", "k", "2").err == "'k' is replaced\n"
    kept = data("set", "ops", "k", "3", "--if-absent", "--json").json
    assert (kept["created"], kept["value"]) == (False, 2)
    assert data("set", "ops", "k", "3", "--if-absent").err == "'k' is left as it was\n"


def test_set_reads_files_and_standard_input(data: Any, folder: Path) -> None:
    folder.joinpath("value.json").write_text('{"from": "file"}')
    data("set", "ops", "a", "@value.json")
    data("set", "ops", "b", "-", stdin='{"from": "pipe"}')
    assert [row["value"]["from"] for row in data("list", "ops", "--json").json] == ["file", "pipe"]


def test_a_row_with_a_time_to_live_says_when_it_expires(data: Any) -> None:
    assert data("set", "ops", "k", "1", "--ttl", "1h", "--json").json["expiresAt"] is not None


def test_list_filters_orders_and_limits(data: Any) -> None:
    fill(data, 10)
    where = '[{"field": "n", "operator": "gte", "value": 5}]'
    listed = data("list", "ops", "--where", where, "--order-by", '{"field": "n", "direction": "desc"}', "--json")
    assert [row["value"]["n"] for row in listed.json] == [9, 8, 7, 6, 5]
    one = data("list", "ops", "--where", '{"field": "n", "operator": "eq", "value": 5}', "--json")
    assert [row["key"] for row in one.json] == ["k005"]
    either = '[{"field": "n", "operator": "eq", "value": 1}, {"field": "n", "operator": "eq", "value": 2}]'
    assert len(data("list", "ops", "--where", either, "--filter-mode", "any", "--json").json) == 2
    assert [row["key"] for row in data("list", "ops", "--order-by", "key", "--limit", "2", "--json").json] == [
        "k000",
        "k001",
    ]


def test_a_limit_says_how_to_go_on(data: Any) -> None:
    fill(data, 5)
    first = data("list", "ops", "--limit", "3", "--json")
    cursor = first.err.split("--cursor ")[1].strip()
    rest = data("list", "ops", "--cursor", cursor, "--json")
    assert [row["key"] for row in first.json + rest.json] == [f"k{number:03}" for number in range(5)]
    assert rest.err == ""


def test_json_has_every_row_and_a_table_for_people_the_first_hundred(data: Any) -> None:
    fill(data, 250)
    assert len(data("list", "ops", "--json").json) == 250
    table = data("list", "ops")
    assert len(table.out.splitlines()) == 101
    assert table.out.splitlines()[0].split() == ["KEY", "UPDATED", "CLAIMS", "VALUE"]
    assert "there are more rows" in table.err


def test_what_is_not_there_is_told_with_the_nearest(data: Any) -> None:
    fill(data, 1, "pending_ops")
    assert data("get", "pending_ops", "k").err == "error: no row 'k' in 'pending_ops'\n"
    answer = data("get", "pendng_ops", "k")
    assert (answer.code, answer.err) == (1, "error: no table 'pendng_ops'; did you mean 'pending_ops'?\n")
    listed = data("list", "pendng_ops", "--json")
    assert (listed.code, listed.json) == (0, [])
    assert "did you mean 'pending_ops'?" in listed.err


def test_tables_are_counted(data: Any) -> None:
    assert data("tables", "--json").json == []
    fill(data, 3, "b")
    fill(data, 2, "a")
    assert data("tables", "--json").json == [{"name": "a", "rows": 2}, {"name": "b", "rows": 3}]
    assert data("tables").out == "TABLE  ROWS\na      2\nb      3\n"


def test_delete_takes_a_key_a_condition_or_all_and_only_one(data: Any) -> None:
    fill(data, 5)
    assert data("delete", "ops", "k000", "--json").json == {"deleted": 1}
    assert data("delete", "ops", "k000", "--json").json == {"deleted": 0}
    condition = '[{"field": "n", "operator": "lt", "value": 3}]'
    assert data("delete", "ops", "--where", condition).err == "2 rows removed\n"
    for wrong in (
        [],
        ["k003", "--all"],
        ["--where", condition, "--all"],
        ["--where", "[]"],
        ["--where", '{"all": []}'],
    ):
        refused = data("delete", "ops", *wrong)
        assert refused.code == 1, wrong
        assert len(data("list", "ops", "--json").json) == 2
    assert data("delete", "ops", "--all", "--json").json == {"deleted": 2}


def test_delete_by_key_leaves_the_same_instant_in_another_spelling(data: Any) -> None:
    for key in ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.0Z"):
        data("set", "ops", key, "1")
    assert data("delete", "ops", "2026-01-01T00:00:00Z", "--json").json == {"deleted": 1}
    assert [row["key"] for row in data("list", "ops", "--json").json] == ["2026-01-01T00:00:00.0Z"]


def test_an_export_can_be_imported(data: Any, folder: Path, shared_url: str) -> None:
    fill(data, 230)
    data("set", "ops", "short", "1", "--ttl", "1h")
    text = data("export", "ops").out
    assert len(text.splitlines()) == 231
    folder.joinpath("rows.jsonl").write_text(text, encoding="utf-8")
    imported = data("import", "copy", "rows.jsonl", "--json").json
    assert imported == {"created": 231, "updated": 0, "expired": 0}
    with app.open(shared_url) as engine:
        rows = {row["key"]: row for row in map(json.loads, data("export", "copy").out.splitlines())}
        assert list(rows) == [json.loads(line)["key"] for line in text.splitlines()]
        kept = engine.data.get("copy", "short")
        assert kept is not None
        assert kept.expires_at is not None


def test_an_export_can_be_filtered(data: Any) -> None:
    fill(data, 5)
    lines = data("export", "ops", "--where", '{"field": "n", "operator": "gt", "value": 3}').out.splitlines()
    assert [json.loads(line)["key"] for line in lines] == ["k004"]


def test_rows_that_have_expired_are_left_out_of_an_import(data: Any) -> None:
    rows = [{"key": "old", "value": 1, "expiresAt": "2020-01-01T00:00:00Z"}, {"key": "new", "value": 1}]
    assert data("import", "ops", "-", "--json", stdin=json.dumps(rows)).json == {
        "created": 1,
        "updated": 0,
        "expired": 1,
    }


def test_an_import_replaces_or_leaves_as_asked(data: Any) -> None:
    data("set", "ops", "a", "1")
    lines = '{"key": "a", "value": 2}\n\n{"key": "b", "value": 2}\n'
    assert data("import", "ops", "-", "--if-absent", "--json", stdin=lines).json == {
        "created": 1,
        "updated": 0,
        "expired": 0,
    }
    assert data("get", "ops", "a").json == 1
    assert data("import", "ops", "-", "--json", stdin=lines).json == {"created": 0, "updated": 2, "expired": 0}
    assert data("get", "ops", "a").json == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{"key": "a", "value": 1}\n{"key": "b" "value": 2}\n',
            "standard input, line 2, column 13: a comma is missing",
        ),
        (
            '{"key": "a", "value": 1}\n{"key": "b", "vlaue": 2}\n',
            "line 2: unknown field 'vlaue'; did you mean 'value'?",
        ),
        ('{"key": "a", "value": 1}\n{"key": "b"}\n', "line 2: it has no 'value'"),
        ('{"key": "a", "value": 1}\n{"key": 7, "value": 1}\n', "line 2: 'key' must be text, a number came"),
        ('[{"key": "a", "value": 1}, 5]', "row 2: a row is an object"),
        ('{"key": "a", "value": 1}\n{"key": "b", "value": "\\u0000"}\n', "line 2: value: the character U+0000"),
        ('{"key": "a", "value": 1}\n{"key": "", "value": 1}\n', "a key has 1 to 512 characters"),
        ('{"key": "a", "value": 1}\n{"key": "b", "value": 1, "expiresAt": 5}\n', "line 2: 'expiresAt' must be"),
    ],
)
def test_an_import_with_one_wrong_row_writes_nothing(text: str, said: str, data: Any) -> None:
    answer = data("import", "ops", "-", stdin=text)
    assert (answer.code, answer.out) == (1, "")
    assert said in answer.err
    assert data("tables", "--json").json == []


def test_a_key_that_comes_twice_keeps_the_last_value_also_over_batches(data: Any) -> None:
    rows = [{"key": f"k{number % 700}", "value": number} for number in range(2100)]
    assert data("import", "ops", "-", stdin=json.dumps(rows)).code == 0
    assert data("get", "ops", "k699").json == 2099
    assert data("tables", "--json").json == [{"name": "ops", "rows": 700}]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["list", "ops", "--where", '[{"field": "a", "operator": "equls", "value": 1}]'], "did you mean 'equals'?"),
        (["list", "ops", "--where", '[{"field": "a", "operator": "gt"}]'], "where[0]: gt needs a value"),
        (["list", "ops", "--where", "[1"], "--where, line 1, column 3"),
        (["list", "ops", "--order-by", '{"feild": "a"}'], "unknown key 'feild'; did you mean 'field'?"),
        (["list", "ops", "--cursor", "nonsense"], "cursor"),
        (["set", "ops", "k", "hello"], "the value, line 1, column 1: hello is no JSON value"),
        (["set", "ops", "k", '"\\u0000"'], "U+0000"),
        (["set", "", "k", "1"], "1 to 512 characters"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_ends_with_1(arguments: list[str], said: str, data: Any) -> None:
    answer = data(*arguments)
    assert (answer.code, answer.out) == (1, ""), answer.err
    assert said in answer.err
