"""A value goes through template, step, store, query and back, and is the same, on every store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flo.engine.app import Flo, open_store
from flo.engine.app import open as open_engine
from flo.engine.errors import InputInvalid, ValueRefused, WorkflowInvalid
from flo.engine.executions import ExecutionState
from flo.engine.stores.changes import parse_changes
from flo.engine.values import dump

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=15,
)

THERE_AND_BACK: dict[str, Any] = {
    "steps": [
        {"stepId": "vars", "stepType": "core.set-variable", "input": {"kept": {"inside": ["<< initial.value >>"]}}},
        {
            "stepId": "put",
            "stepType": "data-store.set",
            "input": {"tableName": "t", "key": "k", "value": {"status": "new", "v": "{{ $vars.kept.inside[0] }}"}},
        },
        {
            "stepId": "find",
            "stepType": "data-store.query",
            "input": {
                "tableName": "t",
                "where": [{"field": "v", "operator": "equals", "value": "<< initial.value >>"}],
            },
        },
        {"stepId": "get", "stepType": "data-store.get", "input": {"tableName": "t", "key": "k"}},
        {
            "stepId": "end",
            "stepType": "core.return",
            "input": {"read": "<< get.value.v >>", "found": "<< find.rows[0].value.v >>", "count": "<< find.count >>"},
        },
    ]
}


def exactly(value: Any) -> str:
    """A value as JSON, keys sorted: ``1`` and ``1.0`` differ in it."""
    return json.dumps(value, sort_keys=True)


@pytest.fixture
def engine(store_url: str) -> Any:
    with open_engine(store_url) as opened:
        yield opened


@given(JSON_VALUES)
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_value_goes_through_everything_and_back_unchanged(engine: Flo, value: Any) -> None:
    result = engine.run(THERE_AND_BACK, {"value": value})
    assert result.state is ExecutionState.SUCCESS, result.error
    assert isinstance(result.output, dict)
    assert result.output["count"] == 1
    wanted = exactly(value).replace("-0.0", "0.0")
    assert exactly(result.output["read"]).replace("-0.0", "0.0") == wanted
    assert exactly(result.output["found"]).replace("-0.0", "0.0") == wanted


@pytest.mark.parametrize(
    "value",
    [
        "0000", "1685E6", "+48100200300", "123_123", "1.0", "1e5", "[1]", "None", "true", "1,2,3", "'foo', 'bar'", "",
        'a"b', "c\\d", "é\n", "🙂", "</script>", "\u2028", "{{ initial.x }}", "<< $env.KEY >>", "{% raw %}",
        7615917337495251231, 18446744073709551616, 2**53 + 1, 1.0, 1e300, 1e-7, 5e-324, True, None, [], {},
    ],
)  # fmt: skip
def test_a_value_that_other_engines_change_is_left_as_it_is(engine: Flo, value: Any) -> None:
    result = engine.run(THERE_AND_BACK, {"value": value})
    assert isinstance(result.output, dict)
    assert exactly(result.output["read"]) == exactly(value)
    assert exactly(result.output["found"]) == exactly(value)


@pytest.mark.parametrize("bad", ["a\u0000b", "\ud800", float("nan")])
def test_what_no_store_can_hold_is_refused_alike_everywhere_with_its_place(engine: Flo, bad: Any) -> None:
    with pytest.raises(ValueRefused) as refused:
        engine.data.set("t", "k", {"list": [1, {"s": bad}]})
    assert refused.value.place == "value.list[1].s"
    with pytest.raises(ValueRefused) as refused:
        parse_changes([{"field": "a", "operation": "set", "value": {"s": bad}}])
    assert refused.value.place == "set[0].value.s"
    assert engine.data.get("t", "k") is None


@pytest.mark.parametrize("written", [json.dumps, lambda document: document], ids=["as text", "as an object"])
def test_a_document_with_text_that_no_store_can_hold_is_refused_before_it_runs(engine: Flo, written: Any) -> None:
    put = {"stepId": "put", "stepType": "data-store.set", "input": {"tableName": "t", "key": "k", "value": {"s": "\0"}}}
    with pytest.raises(WorkflowInvalid) as refused:
        engine.run(engine.load(written({"steps": [put]})))
    (problem,) = refused.value.problems
    assert problem.place == "steps[0].input.value.s"
    assert "the character U+0000" in problem.message
    assert engine.data.get("t", "k") is None


@pytest.mark.parametrize(
    ("where", "mode"), [([{"field": "status", "operator": "equals", "value": "<< initial.missing >>"}], "all")]
)
@pytest.mark.parametrize("step_type", ["data-store.atomic-claim", "data-store.delete", "data-store.atomic-update"])
def test_a_missing_value_in_where_fails_the_step_and_touches_nothing(
    engine: Flo, step_type: str, where: Any, mode: str
) -> None:
    engine.data.set("t", "k", {"status": "pending"})
    given: dict[str, Any] = {"tableName": "t", "where": where, "filterMode": mode}
    if step_type == "data-store.atomic-update":
        given |= {"key": "k", "set": [{"field": "status", "operation": "set", "value": "x"}]}
    result = engine.run({"steps": [{"stepId": "s", "stepType": step_type, "input": given}]})
    assert result.state is ExecutionState.FAILED
    assert result.error is not None
    assert "initial.missing" in str(result.error["message"])
    assert "where" in str(result.error["message"])
    row = engine.data.get("t", "k")
    assert row is not None
    assert row.value == {"status": "pending"}


@pytest.mark.parametrize("everything", [{"where": []}, {"where": {"all": []}}, {"all": False}])
def test_deleting_everything_has_to_be_said(engine: Flo, everything: dict[str, Any]) -> None:
    engine.data.set("t", "k", {})
    step = {"stepId": "s", "stepType": "data-store.delete", "input": {"tableName": "t", **everything}}
    assert engine.run({"steps": [step]}).state is ExecutionState.FAILED
    assert engine.data.get("t", "k") is not None
    step["input"] = {"tableName": "t", "all": True}
    result = engine.run({"steps": [step]})
    assert result.steps["s"]["output"] == {"deleted": 1}  # type: ignore[index, call-overload]


def test_a_claim_holds_the_rows_and_a_guarded_update_ends_them(engine: Flo) -> None:
    engine.data.set_many("ops", [(f"k{at}", {"status": "pending", "n": at}) for at in range(3)])
    claim = {
        "stepId": "claim",
        "stepType": "data-store.atomic-claim",
        "input": {
            "tableName": "ops",
            "where": [{"field": "status", "operator": "equals", "value": "pending"}],
            "orderBy": {"field": "createdAt", "direction": "asc"},
            "limit": 2,
        },
    }
    done = {
        "stepId": "done",
        "stepType": "data-store.atomic-update",
        "input": {
            "tableName": "ops",
            "key": "<< $item.key >>",
            "where": [{"field": "claimedBy", "operator": "equals", "value": "<< $execution.id >>"}],
            "set": [{"field": "status", "operation": "set", "value": "done"}],
        },
    }
    loop = {"stepId": "each", "stepType": "core.for-each", "input": {"items": "<< claim.claimed >>", "steps": [done]}}
    result = engine.run({"steps": [claim, loop]})
    claimed: Any = result.steps["claim"]
    assert [row["key"] for row in claimed["output"]["claimed"]] == ["k0", "k1"]
    assert {row["value"]["claimedBy"] for row in claimed["output"]["claimed"]} == {result.execution_id}
    statuses = [engine.data.get("ops", f"k{at}").value["status"] for at in range(3)]
    assert statuses == ["done", "done", "pending"]
    assert dump(claimed["output"]["claimed"][0]["claimCount"]) == "1"


def test_a_url_that_is_no_store_names_the_nearest() -> None:
    with pytest.raises(Exception, match="did you mean 'postgresql'"):
        open_store("postgrsql://x")
    with pytest.raises(Exception, match=r"did you mean 'sqlite:flo\.db'"):
        open_store("flo.db")


def test_deleting_by_key_leaves_the_same_instant_in_another_spelling(engine: Flo) -> None:
    for key in ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00+00:00"):
        engine.data.set("t", key, {})
    step = {"stepId": "s", "stepType": "data-store.delete", "input": {"tableName": "t", "key": "2026-01-01T00:00:00Z"}}
    result = engine.run({"steps": [step]})
    assert result.steps["s"]["output"] == {"deleted": 1}  # type: ignore[index, call-overload]
    assert engine.data.get("t", "2026-01-01T00:00:00+00:00") is not None


def test_a_store_url_may_say_how_sure_a_commit_has_to_be(tmp_path: Path) -> None:
    for synchronous in ("FULL", "normal", "OFF"):
        with open_engine(f"sqlite:{tmp_path / 'flo.sqlite'}?synchronous={synchronous}") as opened:
            assert opened.store.vitals()["synchronous"] == synchronous.upper()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite:x.sqlite?synchronous=SOMETIMES", "it must be one of FULL, NORMAL, EXTRA, OFF"),
        ("sqlite:x.sqlite?sync=OFF", "unknown option 'sync'"),
        ("sqlite:", "names no file"),
    ],
)
def test_a_store_url_that_says_something_else_is_refused(url: str, message: str) -> None:
    with pytest.raises(InputInvalid, match=message):
        open_store(url)
