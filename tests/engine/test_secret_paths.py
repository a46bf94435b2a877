"""A secret that goes every way through a run is found nowhere but at the server that was to get it."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from flo.engine import app
from flo.engine.commands.announcements import as_json
from flo.engine.events import Event
from flo.engine.sealing import new_key
from flo.engine.values import dump

SECRET = "ab'c\"d, and so on"
UPPER, REPLACED = SECRET.upper(), SECRET.replace("and", "&")


class Received:
    """What a server on loopback was sent. It gives everything back in its answer."""

    def __init__(self) -> None:
        received = self
        self.headers: list[str] = []
        self.queries: list[str] = []
        self.bodies: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                received.headers.append(str(self.headers["X-Key"]))
                received.queries.append(parse_qs(urlsplit(self.path).query)["k"][0])
                received.bodies.append(body)
                said = dump({"url": self.path, "key": self.headers["X-Key"], "body": body}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/echo"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


@pytest.fixture
def received() -> Iterator[Received]:
    made = Received()
    yield made
    made.close()


def every_way(url: str) -> dict[str, Any]:
    """A workflow that sends ``$env.API_KEY`` every way there is."""
    key = "<< $env.API_KEY >>"
    return {
        "name": "every-way",
        "steps": [
            {"stepId": "plain", "stepType": "core.log", "input": {"message": key, "data": {"deep": [key]}}},
            {"stepId": "around", "stepType": "core.log", "input": {"message": f"key={key}; << $env.API_KEY | size >>"}},
            {"stepId": "whole", "stepType": "core.log", "input": {"message": "<< $env >>"}},
            {
                "stepId": "made",
                "stepType": "core.set-variable",
                "input": {
                    "upper": "<< $env.API_KEY | upcase >>",
                    "replaced": "<< $env.API_KEY | replace: 'and', '&' >>",
                    "code": "<< $env.API_KEY | base64_encode >>",
                    "letters": "<< $env.API_KEY | split: '' >>",
                },
            },
            {"stepId": "filtered", "stepType": "core.log", "input": {"message": "<< $vars.upper >> << made.code >>"}},
            {
                "stepId": "send",
                "stepType": "core.http",
                "input": {
                    "method": "POST",
                    "url": f"{url}?k=<< $env.API_KEY | url_encode >>",
                    "headers": {"X-Key": key},
                    "body": {"key": key, "made": "<< $vars.replaced >>"},
                },
            },
            {"stepId": "answered", "stepType": "core.log", "input": {"message": "got << send.body >>"}},
            {
                "stepId": "loop",
                "stepType": "core.for-each",
                "input": {
                    "items": [1, 2],
                    "steps": [
                        {
                            "stepId": "inside",
                            "stepType": "core.set-variable",
                            "input": {"held": f"<< $item >>: {key}"},
                        }
                    ],
                },
            },
            {"stepId": "after", "stepType": "core.log", "input": {"message": "<< loop.items[1].output.inside.held >>"}},
            {
                "stepId": "child",
                "stepType": "core.sub-workflow",
                "input": {
                    "workflow": {
                        "steps": [
                            {
                                "stepId": "say",
                                "stepType": "core.log",
                                "input": {"message": "child << initial.key >>"},
                            },
                            {
                                "stepId": "give",
                                "stepType": "core.return",
                                "input": {"key": "<< initial.key | append: '!' >>"},
                            },
                        ]
                    },
                    "inputs": {"key": key},
                },
            },
            {
                "stepId": "returned",
                "stepType": "core.if",
                "input": {
                    "condition": {
                        "and": [
                            "<< child.key == $env.API_KEY + '!' >>",
                            "<< loop.items[0].output.inside.held contains $env.API_KEY >>",
                        ]
                    },
                    "then": [{"stepId": "same", "stepType": "core.log", "input": {"message": "all is there"}}],
                },
            },
            *(
                {"stepId": step, "stepType": kind, "input": given, "continueOnError": True}
                for step, kind, given in (
                    ("fails", "core.fail", {"message": f"bad key {key}", "code": "bad"}),
                    ("derived", "core.fail", {"message": "bad << $vars.replaced >>"}),
                    ("misread", "core.log", {"message": "<< $env.API_KEY | to_number >>"}),
                    ("misfit", "core.log", {"message": "x", "level": key}),
                    ("unknown", "core.http", {"url": f"{url}/{key}", "method": "GET", "connection": key}),
                    ("kept", "data-store.set", {"tableName": "t", "key": "k", "value": {"a": [key]}}),
                    ("keyed", "data-store.set", {"tableName": "t", "key": key, "value": 1}),
                    ("made-row", "data-store.set", {"tableName": "t", "key": "k", "value": "<< $vars.replaced >>"}),
                    ("many", "data-store.set-many", {"tableName": "t", "entries": [{"key": "k", "value": key}]}),
                    (
                        "changed",
                        "data-store.atomic-update",
                        {
                            "tableName": "t",
                            "key": "k",
                            "upsert": True,
                            "set": [{"field": "a", "operation": "set", "value": f"x {key}"}],
                        },
                    ),
                    ("waits", "core.wait-for-signal", {"name": key, "timeout": "1s"}),
                    (
                        "queued",
                        "queue.enqueue",
                        {"handler": "core.log", "input": {"message": "a job"}, "key": key},
                    ),
                )
            ),
            {"stepId": "end", "stepType": "core.return", "input": {"key": key, "errors": "<< $errors >>"}},
        ],
    }


def kept_by(url: str, engine: app.Flo, tmp_path: Path) -> str:
    """Everything that a store has of it, as text."""
    if url.startswith("sqlite"):
        return "".join(file.read_bytes().decode("utf-8", "replace") for file in tmp_path.rglob("*") if file.is_file())
    if url.startswith("postgresql"):
        with psycopg.connect(url.replace("+psycopg", "")) as connection:
            tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'flo'").fetchall()
            return "".join(
                str(connection.execute(f'SELECT t::text FROM flo."{table}" t').fetchall()) for (table,) in tables
            )
    return repr([held for held in gc.get_objects() if type(held).__module__ == "flo.engine.executions"])


def spellings() -> Iterator[str]:
    for secret in (SECRET, UPPER, REPLACED, "YWInYyJkLCBhbmQgc28gb24"):
        yield secret
        yield json.dumps(secret)[1:-1]
        yield repr(secret)[1:-1]
        yield repr(dump(secret))[1:-1]
        yield secret.replace('"', '""')
        yield dump(dump(secret)[1:-1])[1:-1]
    yield "ab%27c%22d"


@pytest.mark.parametrize("sealed", [False, True], ids=["without a master key", "with a master key"])
def test_a_secret_is_found_nowhere_but_at_the_server_that_was_to_get_it(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, received: Received, sealed: bool
) -> None:
    monkeypatch.setenv("FLO_SECRET_API_KEY", SECRET)
    if sealed:
        monkeypatch.setenv("FLO_MASTER_KEY", new_key())
    heard: list[Event] = []
    with app.open(store_url, listeners=[heard.append]) as engine:
        result = engine.run(every_way(received.url))
        assert result.state == "completed_with_errors", result.error
        lines = [line.message for line in engine.executions.lines(result.execution_id, limit=1_000)]
        told = dump([as_json(event) for event in heard])
        shown = json.dumps(result.as_json(), default=list)
        execution = engine.executions.get(result.execution_id)
        assert execution is not None
        records = dump([record.as_json() for record in engine.executions.steps(result.execution_id)])
        stored = kept_by(store_url, engine, tmp_path)
        assert engine.data.tables() == []

    assert (received.headers, received.queries) == ([SECRET], [SECRET])
    assert json.loads(received.bodies[0]) == {"key": SECRET, "made": REPLACED}
    for where in (told, shown, records, stored, repr(lines), repr(execution)):
        places = [where.lower().find(each.lower()) for each in spellings()]
        assert [where[max(place - 120, 0) : place + 60] for place in places if place >= 0] == []
    assert "***" in lines
    assert "key=***; 17" in lines
    assert '{"API_KEY":"***"}' in lines
    assert "*** ***" in lines
    assert "all is there" in lines
    assert result.output["key"] == "***"  # type: ignore[index, call-overload]
    codes = {step: (held["error"] or {}).get("code") for step, held in result.steps.items()}  # type: ignore[union-attr, index, call-overload]
    refused = {"kept", "keyed", "made-row", "many", "changed", "waits"}
    assert {step for step, code in codes.items() if code == "secret_refused"} == refused
    assert "output.key" in execution.as_json()["redactedPaths"]  # type: ignore[operator]
    assert result.steps["fails"]["error"]["message"] == "bad key ***"  # type: ignore[index, call-overload]
