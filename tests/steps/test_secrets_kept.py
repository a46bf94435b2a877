"""What becomes of secrets when an execution is stored, delivered again, replayed, or starts others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from flo.engine.errors import InputInvalid, NotFound
from flo.engine.sealing import new_key
from flo.engine.values import dump

from .conftest import Workplace

SECRET = "s3cret, or so"
SAME = "<< 'same' if initial.key == $env.API_KEY else 'another' >>"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLO_SECRET_API_KEY", SECRET)


@pytest.fixture
def master_key(monkeypatch: pytest.MonkeyPatch, secret: None) -> None:
    monkeypatch.setenv("FLO_MASTER_KEY", new_key())


def give(value: Any) -> dict[str, Any]:
    return {"stepId": "give", "stepType": "core.return", "input": {"found": value}}


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


HELD: Any = [
    {"stepId": "hold", "stepType": "core.set-variable", "input": {"key": "<< $env.API_KEY >>", "n": 1}},
    {"stepId": "cut", "stepType": "data-store.set", "input": {"tableName": "t", "key": "k", "value": 1}},
    give("<< 'same' if $vars.key == hold.key and hold.key == $env.API_KEY and $vars.n == 1 else 'another' >>"),
]


def test_with_a_key_a_run_whose_worker_died_goes_on_with_its_secrets(
    master_key: None, shared_workplace: Workplace, killed_after: Callable[[Workplace, str], None]
) -> None:
    begun = shared_workplace.enqueue(HELD)
    killed_after(shared_workplace, "cut")
    shared_workplace.clock.forward(timedelta(minutes=1))
    shared_workplace.drain()
    assert shared_workplace.get(begun).output == {"found": "same"}


def test_without_a_key_a_run_whose_worker_died_fails_where_it_refers_to_a_secret_that_is_gone(
    shared_workplace: Workplace, killed_after: Callable[[Workplace, str], None]
) -> None:
    begun = shared_workplace.enqueue(HELD)
    killed_after(shared_workplace, "cut")
    shared_workplace.clock.forward(timedelta(minutes=1))
    shared_workplace.drain()
    execution = shared_workplace.get(begun)
    assert execution.state == "failed"
    assert execution.error is not None
    assert execution.error["code"] == "template_error"
    assert "FLO_MASTER_KEY" in str(execution.error["message"])


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


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Two environments in a settings file."""
    file = tmp_path / "stages.json"
    file.write_text(dump({"environments": {"test": {"STAGE": "test"}, "live": {"STAGE": "live"}}}), encoding="utf-8")
    file.chmod(0o600)
    monkeypatch.setenv("FLO_SETTINGS", str(file))


def test_who_starts_a_run_says_in_which_environment_and_children_and_jobs_run_there_too(
    stages: None, workplace: Workplace
) -> None:
    stage = give("<< $env.STAGE >>")
    place = workplace
    again = Workplace(place.url) if place.url != "memory:" else place
    again.add("child", [stage])
    again.add("elsewhere", [stage], environment="live")
    steps = [
        {"stepId": "call", "stepType": "core.sub-workflow", "input": {"workflowTemplateName": "child"}},
        {"stepId": "other", "stepType": "core.sub-workflow", "input": {"workflowTemplateName": "elsewhere"}},
        {"stepId": "put", "stepType": "queue.enqueue", "input": {"workflow": "child"}},
        give(["<< $env.STAGE >>", "<< call.found >>", "<< other.found >>"]),
    ]
    document = {"name": "main", "steps": steps, "environment": "test"}
    runs = [again.engine.run(document), again.engine.run(document, environment="live")]
    assert [run.output for run in runs] == [{"found": ["test", "test", "live"]}, {"found": ["live", "live", "live"]}]
    again.drain()
    jobs = [again.children(run.execution_id)[-1] for run in runs]
    assert [job.output for job in jobs] == [{"found": "test"}, {"found": "live"}]
    with pytest.raises(NotFound, match="did you mean 'live'"):
        again.engine.run(document, environment="lives")
    if again is not place:
        again.engine.close()


def test_an_environment_that_is_not_there_fails_the_step_that_needs_it(stages: None, workplace: Workplace) -> None:
    result = workplace.engine.run({"steps": [give("<< $env.STAGE >>")], "environment": "nowhere"})
    assert result.error is not None
    assert result.error["code"] == "invalid_environment"


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


MADE_OF_LOST: Any = [
    "<< hold.key >>",
    "<< hold >>",
    "<< hold | json >>",
    "text << hold >>",
    "<< hold.list | first | upcase >>",
    "<< hold.list | join: ',' >>",
    "<< $vars.list | size >>",
    "<< f.items >>",
    "<< f.items | map: 'output' | json >>",
    "{% for each in f.items %}<< each.output.inside.held >>{% endfor %}",
]


def test_nothing_is_made_of_a_secret_that_is_gone(
    shared_workplace: Workplace, killed_after: Callable[[Workplace, str], None]
) -> None:
    inside = {"stepId": "inside", "stepType": "core.set-variable", "input": {"held": "a << $env.API_KEY >>"}}
    tries = [
        {
            "stepId": f"try-{number}",
            "stepType": "core.return",
            "input": {"made": made},
            "continueOnError": True,
        }
        for number, made in enumerate(MADE_OF_LOST)
    ]
    condition = {"in": ["***", {"var": "hold.list"}]}
    begun = shared_workplace.enqueue(
        [
            {
                "stepId": "hold",
                "stepType": "core.set-variable",
                "input": {"key": "<< $env.API_KEY >>", "list": ["<< $env.API_KEY >>"], "n": 1},
            },
            {"stepId": "f", "stepType": "core.for-each", "input": {"items": [1, 2], "steps": [inside]}},
            {"stepId": "cut", "stepType": "data-store.set", "input": {"tableName": "t", "key": "k", "value": 1}},
            *tries,
            {"stepId": "asks", "stepType": "core.if", "input": {"condition": condition}, "continueOnError": True},
            {
                "stepId": "maps",
                "stepType": "data.map",
                "input": {"items": "<< f.items >>", "value": "<< $item.output.inside.held >>"},
                "continueOnError": True,
            },
            {
                "stepId": "skips",
                "stepType": "core.log",
                "skipCondition": "<< hold.key == '***' >>",
                "input": {"message": "x"},
                "continueOnError": True,
            },
            give("<< hold.n >>"),
        ]
    )
    killed_after(shared_workplace, "cut")
    shared_workplace.clock.forward(timedelta(minutes=1))
    shared_workplace.drain()
    records = {record.path: record for record in shared_workplace.engine.executions.steps(begun)}
    for path in [*(step["stepId"] for step in tries), "asks", "maps", "skips"]:
        error = records[str(path)].error
        assert error is not None, path
        assert error["code"] == "template_error", path
        assert "FLO_MASTER_KEY" in str(error["message"]), path
    assert shared_workplace.get(begun).output == {"found": 1}


def test_a_child_that_is_delivered_again_has_the_input_that_it_began_with(
    shared_workplace: Workplace, killed_after: Callable[[Workplace, str], None]
) -> None:
    row = {"tableName": "t", "key": "k"}
    shared_workplace.add(
        "child",
        [
            {"stepId": "cut", "stepType": "data-store.set", "input": {**row, "value": "<< initial.id >>"}},
            {"stepId": "read", "stepType": "data-store.get", "input": row},
            give("<< 'same' if read.value == initial.id and initial.key == $env.API_KEY else 'another' >>"),
        ],
    )
    inputs = {"id": "<< $util.uuid >>", "key": "<< $env.API_KEY >>"}
    call = {"workflowTemplateName": "child", "inputs": inputs}
    begun = shared_workplace.enqueue(
        [{"stepId": "call", "stepType": "core.sub-workflow", "input": call}, give("<< call.found >>")]
    )
    killed_after(shared_workplace, "cut")
    shared_workplace.clock.forward(timedelta(minutes=1))
    shared_workplace.drain()
    assert shared_workplace.get(begun).output == {"found": "same"}


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


TOLD = "<< $connections.PG.password >> << $env.PIN >>"


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


def test_a_document_says_where_it_runs_unless_somebody_chose(stages: None, workplace: Workplace) -> None:
    place = Workplace(workplace.url)

    def calls(name: str) -> Any:
        return [
            {"stepId": "call", "stepType": "core.sub-workflow", "input": {"workflowTemplateName": name}},
            give(["<< $env.STAGE >>", "<< call.found >>"]),
        ]

    place.add("leaf", [give("<< $env.STAGE >>")], environment="test")
    place.add("mid", calls("leaf"))
    top = {"name": "top", "steps": calls("mid"), "environment": "live"}
    assert place.engine.run(top).output == {"found": ["live", ["live", "test"]]}
    assert place.engine.run(top, environment="live").output == {"found": ["live", ["live", "live"]]}
    job = place.engine.enqueue(top).execution_id
    place.drain()
    assert place.get(job).output == {"found": ["live", ["live", "test"]]}
    assert place.get(job).environment == "live"
    place.engine.close()


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
