"""``core.http`` in whole runs, over a real server."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from flo.engine import app
from flo.engine.executions import ExecutionState
from flo.testing import FrozenClock

from .http_server import NOBODY, Asked, Reply, Server, echo
from .test_http_answers import PNG


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        made.on("/echo", echo)
        yield made


@pytest.fixture
def flo() -> Iterator[app.Flo]:
    with app.open("memory:", clock=FrozenClock()) as engine:
        yield engine


def get(step_id: str, url: str, **input: Any) -> dict[str, Any]:
    return {"stepId": step_id, "stepType": "core.http", "input": {"url": url, **input}}


def for_each(items: Any, steps: list[Any], **input: Any) -> dict[str, Any]:
    return {"stepId": "each", "stepType": "core.for-each", "input": {"items": items, "steps": steps, **input}}


def test_an_image_that_is_fetched_and_posted_on_is_the_same(server: Server, flo: app.Flo) -> None:
    url = server.route("/image", Reply(200, [("Content-Type", "image/png")], PNG))
    server.routes["/posted"] = lambda asked: Reply()
    given = {"body": "<< get.body >>", "bodyEncoding": "<< get.bodyEncoding >>"}
    steps = [get("get", url), get("post", server.url + "/posted", method="POST", **given)]
    assert flo.run({"steps": steps}).state is ExecutionState.SUCCESS
    assert hashlib.sha256(server.asked[1].body).digest() == hashlib.sha256(PNG).digest()


def test_values_go_to_the_server_and_come_back_with_the_same_digits(server: Server, flo: app.Flo) -> None:
    order = {"id": 7615917337495251231, "big": 2**64, "rate": 1.0, "text": "0000"}
    post = get("post", server.url + "/echo?v=1", method="POST", body="<< initial.order >>",
               headers={"OTP": "123345", "X-Order": "<< initial.order.id >>"}, params={"v": "1.0"})  # fmt: skip
    back = {"stepId": "back", "stepType": "core.return", "input": {"order": "<< post.body >>"}}
    assert flo.run({"steps": [post, back]}, {"order": order}).output == {"order": order}
    [asked] = server.asked
    assert (asked.headers["otp"], asked.headers["x-order"]) == ("123345", "7615917337495251231")
    assert asked.query == [("v", "1"), ("v", "1.0")]


def test_an_error_of_the_server_stops_the_run_and_is_readable_where_it_is_tolerated(
    server: Server, flo: app.Flo
) -> None:
    url = server.route("/", Reply(404, [("Content-Type", "application/json")], b'{"why":"gone"}'))
    assert flo.run({"steps": [get("get", url)]}).state is ExecutionState.FAILED
    back = {"stepId": "back", "stepType": "core.return", "input": {
        "why": "<< get.body.why >>", "status": "<< get.status >>", "said": "<< get.$meta.operationalErrors[0] >>",
    }}  # fmt: skip
    result = flo.run({"steps": [{**get("get", url), "continueOnError": True}, back]})
    assert result.state is ExecutionState.COMPLETED_WITH_ERRORS
    assert result.output == {"why": "gone", "status": 404, "said": f"HTTP 404 Not Found from GET {url}"}


def test_tries_are_not_multiplied_by_the_loop_or_the_step_around(server: Server, flo: app.Flo) -> None:
    step = {**get("get", server.route("/", Reply(503)), retryAttempts=2), "retry": {"maxAttempts": 4}}
    result = flo.run({"steps": [for_each([1, 2, 3], [step], continueOnError=True)]})
    assert len(server.asked) == 9
    assert result.steps["each"]["output"]["failed"] == 3


def test_the_retry_of_the_step_tries_again_where_the_input_does_not(server: Server, flo: app.Flo) -> None:
    url = server.route("/", Reply(503), Reply(404))
    flo.run({"steps": [{**get("get", url), "retry": {"maxAttempts": 4}}]})
    assert len(server.asked) == 2


def test_the_retry_of_the_step_waits_as_long_as_the_server_asks_for(server: Server, flo: app.Flo) -> None:
    url = server.route("/", Reply(503, headers=[("Retry-After", "17")]), Reply(200))
    before = flo.clock.now()
    assert flo.run({"steps": [{**get("get", url), "retry": {"maxAttempts": 2, "delaySeconds": 1}}]}).success
    assert (flo.clock.now() - before).total_seconds() == 17


def test_a_loop_asks_the_server_as_often_at_once_as_it_may_and_no_oftener(server: Server, flo: app.Flo) -> None:
    four = threading.Barrier(4)
    lock = threading.Lock()
    seen: list[int] = []
    now = 0

    def meet(asked: Asked) -> Reply:
        nonlocal now
        with lock:
            now += 1
            seen.append(now)
        four.wait(30)  # sixty in fours: less than four at once would wait in vain
        with lock:
            now -= 1
        return Reply()

    url = server.on("/", meet)
    result = flo.run({"steps": [for_each(list(range(60)), [get("get", url)], concurrency=4)]})
    assert result.steps["each"]["output"]["succeeded"] == 60
    assert max(seen) == 4


@pytest.mark.parametrize("around", ["nothing", "for-each", "sub-workflow"])
def test_a_run_whose_time_is_over_does_not_wait_for_a_server(server: Server, around: str) -> None:
    step = get("get", server.on("/", lambda asked: asked.over.wait() and None), timeoutMilliseconds=600_000)
    if around == "for-each":
        step = for_each([1, 2], [step], concurrency=2)
    if around == "sub-workflow":
        step = {"stepId": "sub", "stepType": "core.sub-workflow", "input": {"workflow": {"steps": [step]}}}
    with app.open("memory:") as engine:
        result = engine.run({"steps": [step], "options": {"timeoutMilliseconds": 200}})
    assert result.error is not None
    assert result.error["code"] == "timeout"


def test_what_is_wrong_with_an_input_is_told_before_the_run(flo: app.Flo) -> None:
    from flo.engine.errors import WorkflowInvalid

    with pytest.raises(WorkflowInvalid) as raised:
        flo.run({"steps": [get("get", NOBODY, methd="GET", retryAttempts=-1, params={"a": {"b": 1}})]})
    said = str(raised.value)
    assert "did you mean 'method'?" in said
    assert "retryAttempts" in said
    with pytest.raises(WorkflowInvalid, match=r"steps\[0\].*method"):
        flo.check({"steps": [get("get", NOBODY, method="GET\n")]})
    assert "params.a" in said


def test_who_does_not_use_it_does_not_pay_for_it() -> None:
    program = (
        "import sys, flo.engine.app, flo.steps.http\n"
        "print([name for name in ('httpx2', 'httpcore2', 'h11', 'ssl') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
