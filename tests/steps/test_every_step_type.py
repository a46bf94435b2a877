"""Every step type that is installed keeps what its schemas, its example and the reference promise."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from flo.engine import app
from flo.engine.app import Flo
from flo.engine.executions import ExecutionState
from flo.engine.registry import Registry
from flo.engine.step import StepType
from flo.testing import FrozenClock

REGISTRY = Registry.installed()
REFERENCE = Path(__file__).resolve().parents[2].joinpath("docs", "reference", "steps.md").read_text(encoding="utf-8")

EVERY = pytest.mark.parametrize("step_type", [REGISTRY[name] for name in sorted(REGISTRY)], ids=lambda held: held.name)

_GROUPS = ("properties", "$defs", "patternProperties", "dependentSchemas")
_SINGLE = ("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")

Act = Callable[[Flo, str], object]


@dataclass(frozen=True)
class Prepared:
    """What an example wants to find. ``act`` is done once the run waits, ``job`` says that ``initial.executionId`` is
    to be that of a job, ``served`` that its URLs are to lead to a server, ``item`` that it stands in a loop. ``fails``
    is the code with which it fails, if it is to."""

    rows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    workflows: tuple[str, ...] = ()
    act: Act | None = None
    job: bool = False
    served: bool = False
    item: Any = None
    fails: str | None = None
    gives: Any = None


INITIAL: Mapping[str, Any] = {
    "orderId": 7,
    "name": "Ada",
    "kind": "refund",
    "total": 200,
    "amount": 12,
    "customer": "ada",
    "orders": [
        {"id": 1, "total": 120, "status": "open", "customerId": "c1", "customer": "ada"},
        {"id": 2, "total": 5, "status": "open", "customerId": "c2", "customer": "bob"},
        {"id": 3, "total": -7, "status": "closed", "customerId": "c1", "customer": "ada"},
    ],
    "customers": [{"id": "c1", "name": "Ada"}, {"id": "c3", "name": "Cyd"}],
    "people": [{"first": "Ada", "last": "Lovelace"}],
    "lines": [{"price": 3, "count": 2}, {"price": 10, "count": 1}],
    "addresses": ["a@example.org", "b@example.org"],
}
"""The input of the runs."""

PENDING = {"pending_ops": {"a": {"status": "pending"}, "b": {"status": "done"}}}

PREPARED: Mapping[str, Prepared] = {
    "core.approval": Prepared(
        act=lambda engine, run: engine.approve(run, actor="maria", approved=False, reason="too much"),
    ),
    "core.fail": Prepared(fails="not_found"),
    "core.for-each": Prepared(gives={"count": 3, "succeeded": 3}),
    "core.http": Prepared(served=True, gives={"status": 200, "body": {"path": "/orders/7"}}),
    "core.if": Prepared(gives={"conditionResult": True, "branch": "then"}),
    "core.log": Prepared(gives={"message": "Processing 7", "level": "info"}),
    "core.return": Prepared(gives={"orderId": 7, "accepted": True}),
    "core.set-variable": Prepared(gives={"greeting": "Hello Ada", "shout": "HELLO ADA"}),
    "core.sub-workflow": Prepared(workflows=("send-invoice",), gives={"sent": 7}),
    "core.switch": Prepared(gives={"caseId": "refund", "matched": True}),
    "core.try": Prepared(gives={"succeeded": False, "error": {"code": "failed", "message": "no luck"}}),
    "core.wait": Prepared(
        act=lambda engine, _: engine.clock.forward(timedelta(minutes=5)),  # type: ignore[attr-defined]
        gives={"waitedUntil": "2026-01-01T00:05:00.000000Z"},
    ),
    "core.wait-for-signal": Prepared(
        act=lambda engine, run: engine.signal(run, "payment-received", {"amount": 12}), gives={"amount": 12}
    ),
    "data-store.atomic-claim": Prepared(rows=PENDING, gives={"count": 1}),
    "data-store.atomic-update": Prepared(rows=PENDING, item={"key": "a"}, gives={"updated": False, "reason": "guard"}),
    "data-store.count": Prepared(rows=PENDING, gives={"count": 1}),
    "data-store.delete": Prepared(
        rows={"sessions": {"old": {"lastSeen": "2025-11-01T00:00:00Z"}, "new": {"lastSeen": "2025-12-31T00:00:00Z"}}},
        gives={"deleted": 1},
    ),
    "data-store.get": Prepared(rows={"settings": {"limits": {"a": 1}}}, gives={"found": True, "value": {"a": 1}}),
    "data-store.query": Prepared(rows={"orders": {"a": {"total": 120}, "b": {"total": 5}}}, gives={"count": 1}),
    "data-store.set": Prepared(gives={"created": True}),
    "data-store.set-many": Prepared(gives={"created": 1, "updated": 0}),
    "data.chunk": Prepared(gives={"count": 1}),
    "data.classify": Prepared(gives={"counts": {"large": 0, "refund": 1, "ordinary": 2}}),
    "data.filter": Prepared(gives={"count": 1}),
    "data.group": Prepared(gives={"count": 3}),
    "data.join": Prepared(gives={"count": 3}),
    "data.map": Prepared(gives={"items": [{"name": "Ada LOVELACE", "position": 1}]}),
    "data.reduce": Prepared(gives={"value": 16}),
    "data.sort": Prepared(gives={"count": 3}),
    "data.unique": Prepared(gives={"count": 2}),
    "queue.enqueue": Prepared(workflows=("send-invoice",), gives={"created": True}),
    "queue.wait": Prepared(job=True, gives={"status": "success"}),
}
"""What the examples of step types want to find; those that want nothing are not here."""


@EVERY
def test_its_schemas_are_sound_and_describe_every_field(step_type: StepType) -> None:
    for schema in (step_type.schema, step_type.output_schema):
        Draft202012Validator.check_schema(schema)
        assert list(undescribed(schema)) == []
        assert schema.get("description") or schema.get("properties"), "nothing is said about it"


@EVERY
def test_it_is_summed_up_in_a_line_and_stands_in_the_reference(step_type: StepType) -> None:
    assert re.fullmatch(r"[A-Z].*\.", step_type.summary)
    assert len(step_type.summary) <= 100
    (section,) = re.findall(rf"^## {re.escape(step_type.name)}\n(.*?)(?=^## |\Z)", REFERENCE, re.MULTILINE | re.DOTALL)
    assert step_type.summary in section
    assert step_type.description in section
    for schema in (step_type.schema, step_type.output_schema):
        missing = [name for name in fields(schema) if not re.search(rf"\n\| `(?:.*\.)?{re.escape(name)}` \| ", section)]
        assert missing == []


@EVERY
def test_its_example_runs_and_gives_what_its_output_schema_says(
    step_type: StepType, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = PREPARED.get(step_type.name, Prepared())
    with app.open("memory:", clock=FrozenClock()) as engine, served(prepared, step_type) as example:
        for name in prepared.workflows:
            send = {"stepId": "end", "stepType": "core.return", "input": {"sent": "<< initial.orderId >>"}}
            engine.add({"name": name, "steps": [send]})
        for table, rows in prepared.rows.items():
            engine.data.set_many(table, list(rows.items()))
        initial = dict(INITIAL)
        if prepared.job:
            initial["executionId"] = engine.enqueue("core.log", {"message": "a job"}).execution_id
        document = in_workflow(step_type, example, prepared.item)
        assert engine.check(document).warnings == ()
        execution_id = engine.enqueue(document, initial).execution_id
        drain(engine)
        if prepared.act is not None:
            assert engine.executions.get(execution_id).state is ExecutionState.SUSPENDED  # type: ignore[union-attr]
            prepared.act(engine, execution_id)
            drain(engine)
        ended = engine.executions.get(execution_id)
    assert ended is not None
    if prepared.fails:
        assert (ended.state, (ended.error or {}).get("code")) == (ExecutionState.FAILED, prepared.fails)
        return
    assert ended.state is ExecutionState.SUCCESS, ended.error
    returned: Any = ended.output
    output = returned if step_type.name == "core.return" else returned["output"]
    assert list(Draft202012Validator(step_type.output_schema).iter_errors(output)) == []
    assert {**output, **(prepared.gives or {})} == output


def test_nothing_is_prepared_for_what_is_not_installed() -> None:
    assert PREPARED.keys() <= set(REGISTRY)


def in_workflow(step_type: StepType, example: Any, item: Any) -> dict[str, Any]:
    """The example as a step, whose output the run returns; with an ``item`` in a loop over it."""
    step: Any = {"stepId": "example", "stepType": step_type.name, "input": example}
    given = "<< example >>"
    if item is not None:
        loop = {"items": [item], "steps": [step]}
        step, given = (
            {"stepId": "loop", "stepType": "core.for-each", "input": loop},
            "<< loop.items[0].output.example >>",
        )
    return {"steps": [step, {"stepId": "end", "stepType": "core.return", "input": {"output": given}}]}


def drain(engine: Flo) -> None:
    engine.worker(["default"]).run(threading.Event(), drain=True)


@contextmanager
def served(prepared: Prepared, step_type: StepType) -> Iterator[Any]:
    """The example; one that asks a server gets its URLs led to one on this machine, which answers with what it got."""
    if not prepared.served:
        yield step_type.example
        return
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        origin = f"http://127.0.0.1:{server.server_port}"
        yield json.loads(re.sub(r"https?://[\w.-]+", origin, json.dumps(step_type.example)))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Echo(BaseHTTPRequestHandler):
    """Answers with the path that was asked for."""

    def do_GET(self) -> None:
        body = json.dumps({"path": self.path.partition("?")[0]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def undescribed(schema: Any) -> Iterator[str]:
    """The properties of a schema, at any depth, of which nothing is said."""
    return (name for name, held in properties(schema) if not held.get("description"))


def fields(schema: Any) -> Iterator[str]:
    """The names of the properties of a schema, at any depth."""
    return (name for name, _ in properties(schema))


def properties(schema: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The properties of a schema, at any depth, by their names."""
    if not isinstance(schema, Mapping):
        return
    yield from schema.get("properties", {}).items()
    inside = [held for group in _GROUPS for held in schema.get(group, {}).values()]
    inside += [schema[key] for key in _SINGLE if key in schema]
    inside += [held for key in _LISTS for held in schema.get(key, ())]
    for held in inside:
        yield from properties(held)
