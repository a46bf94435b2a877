"""What becomes of secrets when an execution is delivered again after its worker died."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from .conftest import Workplace
from .secret_cases import give

pytestmark = pytest.mark.usefixtures("secret")


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
