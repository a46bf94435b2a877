"""What becomes of secrets when an execution is stored, waits, is replayed, or starts others."""

from __future__ import annotations

from typing import Any

import pytest

from flo.engine.errors import InputInvalid
from flo.engine.sealing import new_key
from flo.engine.values import dump

from .conftest import Workplace
from .secret_cases import SECRET, give

pytestmark = pytest.mark.usefixtures("secret")


SAME = "<< 'same' if initial.key == $env.API_KEY else 'another' >>"


ENQUEUE: Any = {
    "stepId": "put",
    "stepType": "queue.enqueue",
    "input": {"workflow": "job", "input": {"key": "<< $env.API_KEY >>"}},
}


def test_a_job_gets_the_secret_in_its_input_where_there_is_a_key_to_seal_it(
    master_key: None, shared_workplace: Workplace
) -> None:
    place = shared_workplace
    place.add("job", [give(SAME)])
    parent = place.enqueue([ENQUEUE])
    again = place.reopen()
    again.drain()
    (job,) = again.children(parent)
    assert SECRET not in dump(job.input)
    assert job.as_json()["input"] == {"key": "***"}
    assert job.as_json()["redactedPaths"] == ["input.key"]
    assert again.get(job.id).output == {"found": "same"}
    replayed = again.engine.replay(job.id)
    again.drain()
    assert again.get(replayed.execution_id).output == {"found": "same"}
    again.engine.close()


def test_without_a_key_a_job_with_a_secret_in_its_input_is_refused(workplace: Workplace) -> None:
    workplace.add("job", [give(SAME)])
    parent = workplace.enqueue([ENQUEUE])
    workplace.drain()
    error = workplace.get(parent).error
    assert error is not None
    assert error["code"] == "invalid_input"
    assert "FLO_MASTER_KEY" in str(error["message"])
    assert workplace.children(parent) == []


@pytest.mark.parametrize("keyed", [True, False])
def test_results_of_a_loop_that_lie_in_the_store_have_their_secrets_when_they_are_read(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, keyed: bool
) -> None:
    if keyed:
        monkeypatch.setenv("FLO_MASTER_KEY", new_key())
    held = {"stepId": "hold", "stepType": "core.set-variable", "input": {"key": "<< $env.API_KEY >>", "pad": "x" * 900}}
    loop = {"items": "<< initial.items >>", "concurrency": 3, "steps": [held]}
    result = workplace.engine.run(
        {
            "steps": [
                {"stepId": "loop", "stepType": "core.for-each", "input": loop},
                give("<< 'same' if loop.items[299].output.hold.key == $env.API_KEY else 'another' >>"),
            ]
        },
        {"items": list(range(300))},
    )
    assert result.output == {"found": "same"}
    assert SECRET not in dump(result.steps)


def test_a_child_gives_a_secret_back_and_what_is_stored_of_it_has_none(workplace: Workplace) -> None:
    workplace.add("child", [give("<< initial.key | append: '!' >>")])
    call = {"workflowTemplateName": "child", "inputs": {"key": "<< $env.API_KEY >>"}}
    parent = workplace.enqueue(
        [
            {"stepId": "call", "stepType": "core.sub-workflow", "input": call},
            give("<< 'same' if call.found == $env.API_KEY + '!' else 'another' >>"),
        ]
    )
    workplace.drain()
    assert workplace.get(parent).output == {"found": "same"}
    (child,) = workplace.children(parent)
    assert SECRET not in dump([child.input, child.output])


def test_a_concurrency_key_never_holds_a_secret(workplace: Workplace) -> None:
    options = {"concurrencyKey": "k << $env.API_KEY >>"}
    with pytest.raises(InputInvalid, match=r"options\.concurrencyKey"):
        workplace.enqueue([give(1)], options=options)


def stored_of(workplace: Workplace, execution_id: str) -> str:
    """What is stored of an execution, its rows excepted."""
    executions = workplace.engine.executions
    kept = [*executions.steps(execution_id), *executions.lines(execution_id, limit=1_000)]
    return repr([workplace.get(execution_id), *kept])


def test_a_parent_that_never_read_a_secret_hides_what_its_child_gave(workplace: Workplace) -> None:
    workplace.add("child", [give("<< $env.API_KEY >>")])
    call = {"workflowTemplateName": "child"}
    parent = workplace.enqueue(
        [
            {"stepId": "call", "stepType": "core.sub-workflow", "input": call},
            {"stepId": "hold", "stepType": "core.set-variable", "input": {"key": "<< call.found >>"}},
            {"stepId": "say", "stepType": "core.log", "input": {"message": "<< $vars >>"}},
            {
                "stepId": "row",
                "stepType": "data-store.set",
                "input": {"tableName": "t", "key": "k", "value": "<< call >>"},
                "continueOnError": True,
            },
            give("<< call.found >>"),
        ]
    )
    workplace.drain()
    assert workplace.state(parent) == "completed_with_errors"
    assert SECRET not in stored_of(workplace, parent)
    assert workplace.engine.data.tables() == []


def test_a_job_of_a_step_type_gets_the_secret_in_its_input(master_key: None, shared_workplace: Workplace) -> None:
    job = {"handler": "core.set-variable", "input": {"key": "<< $env.API_KEY >>"}}
    parent = shared_workplace.enqueue([{"stepId": "put", "stepType": "queue.enqueue", "input": job}])
    again = shared_workplace.reopen()
    again.drain()
    (ended,) = again.children(parent)
    assert ended.state == "success"
    assert SECRET not in dump([ended.input, ended.output])
    assert again.engine._requests.vaults.opened(ended.output, ended.id) == {"key": SECRET}
    again.engine.close()


def test_a_secret_is_there_after_a_wait_in_the_same_process(workplace: Workplace) -> None:
    result = workplace.engine.run(
        {
            "steps": [
                {"stepId": "hold", "stepType": "core.set-variable", "input": {"key": "<< $env.API_KEY >>"}},
                {"stepId": "wait", "stepType": "core.wait", "input": {"duration": "1500ms"}},
                give("<< 'same' if hold.key == $env.API_KEY else 'another' >>"),
            ]
        }
    )
    assert result.output == {"found": "same"}


def test_ordinary_words_of_a_connection_are_no_reason_to_refuse_rows(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = {"type": "postgres", "database": "orders", "user": "administrator", "password": "hunter2!", "in": "header"}
    monkeypatch.setenv("FLO_CONNECTION_PG", dump(held))
    monkeypatch.setenv("FLO_SECRET_PIN", "1234")
    again = workplace.reopen() if workplace.url != "memory:" else Workplace("memory:")
    steps = [
        {
            "stepId": "say",
            "stepType": "core.log",
            "input": {"message": "<< $connections.PG.password >> << $env.PIN >>"},
        },
        *(
            {"stepId": f"row-{number}", "stepType": "data-store.set", "input": {"tableName": "orders", **row}}
            for number, row in enumerate(
                [
                    {"key": "a", "value": {"note": "header X missing", "by": "administrator"}},
                    {"key": "b", "value": {"n": 91234567, "m": 1234}},
                ]
            )
        ),
        {
            "stepId": "refused",
            "stepType": "data-store.set",
            "input": {"tableName": "orders", "key": "c", "value": {"deep": ["it is hunter2!, see"]}},
            "continueOnError": True,
        },
    ]
    result = again.engine.run({"steps": steps})
    assert result.state == "completed_with_errors", result.error
    assert result.steps["refused"]["error"]["code"] == "secret_refused"  # type: ignore[index, call-overload]
    assert again.engine.data.tables()[0].rows == 2
    again.engine.close()


def test_results_of_a_loop_inside_a_parallel_list_are_shown_without_their_secrets(workplace: Workplace) -> None:
    held = {"stepId": "hold", "stepType": "core.set-variable", "input": {"key": "<< $env.API_KEY >>"}}
    loop = {"stepId": "f", "stepType": "core.for-each", "input": {"items": [1, 2], "steps": [held]}}
    result = workplace.engine.run({"steps": [{"stepId": "p", "stepType": "core.parallel", "input": {"steps": [loop]}}]})
    shown = dump(result.as_json())
    assert SECRET not in shown
    assert shown.count("***") == 4


def test_a_secret_goes_along_with_the_event_of_an_end_where_it_is_sealed(
    master_key: None, shared_workplace: Workplace
) -> None:
    place = Workplace(shared_workplace.url)
    trigger = {"name": "after", "type": "event", "config": {"event": {"on": "workflow.finished", "workflow": "first"}}}
    place.add("first", [give("<< $env.API_KEY >>")])
    same = "<< 'same' if initial.event.output.found == $env.API_KEY else 'another' >>"
    place.add("second", [give(same)], triggers=[trigger])
    place.engine.enqueue("first")
    place.drain()
    place.engine.scheduler().tick()
    place.drain()
    (second,) = [held for held in place.engine.executions.list() if held.workflow == "second"]
    assert second.output == {"found": "same"}
    assert SECRET not in dump(second.input)
    place.engine.close()


def test_data_that_looks_like_a_secret_that_was_put_away_is_data(workplace: Workplace) -> None:
    odd = [{"$flo.secret": "hello", "other": 1}, {"$flo.secret": "hello"}, {"$flo.secret": 1, "kept": "x"}]
    result = workplace.engine.run(
        {
            "steps": [
                {"stepId": "say", "stepType": "core.log", "input": {"message": "<< $env.API_KEY >>"}},
                {
                    "stepId": "f",
                    "stepType": "core.for-each",
                    "input": {
                        "items": odd,
                        "steps": [{"stepId": "s", "stepType": "core.set-variable", "input": {"a": "<< $item >>"}}],
                    },
                },
                give("<< f.items | map: 'output' >>"),
            ]
        }
    )
    assert result.output == {"found": [{"s": {"a": held}} for held in odd]}


def test_a_master_key_that_is_none_is_told_before_anything_runs(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLO_MASTER_KEY", "garbage")
    with pytest.raises(InputInvalid, match="FLO_MASTER_KEY"):
        Workplace(sqlite_url)
