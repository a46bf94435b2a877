"""In which environment a run, its children and its jobs run."""

from __future__ import annotations

from typing import Any

import pytest

from flo.engine.errors import NotFound

from .conftest import Workplace
from .secret_cases import give

pytestmark = pytest.mark.usefixtures("secret")


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
