"""A server on loopback that answers as a test says and keeps what it was asked, and a call of ``core.http`` without an
engine around it."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

from flo.engine.clock import Clock, SystemClock
from flo.engine.errors import StepFailed
from flo.engine.step import Engine, Outcome, StepCall
from flo.engine.stores.base import DataStore
from flo.engine.values import Json, JsonObject
from flo.steps.http_addresses import Guard
from flo.steps.http_calls import request
from flo.steps.http_network import Network, connect, resolve, system_network

SYSTEM = system_network({})
NOBODY = "http://127.0.0.1:1"
"""Nothing listens there."""


@dataclass(frozen=True)
class Asked:
    """A request as it came. ``write`` sends bytes as they are; ``over`` is set when the test has ended."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    over: threading.Event
    write: Callable[[bytes], object]

    @property
    def query(self) -> list[tuple[str, str]]:
        return parse_qsl(urlsplit(self.target).query, keep_blank_values=True)


@dataclass(frozen=True)
class Reply:
    """An answer; ``None`` for a body leaves out its length, too."""

    status: int = 200
    headers: Sequence[tuple[str, str]] = ()
    body: bytes | None = b""


Route = Callable[[Asked], Reply | None]


class Server:
    """Answers by path; a path without a route is 404. A route that gives nothing has answered by ``write``."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[Asked] = []
        self.routes: dict[str, Route] = {}
        self.over = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                with suppress(ConnectionError, ssl.SSLError):
                    super().handle_one_request()

            def parse_request(self) -> bool:
                if not super().parse_request():
                    return False
                self.command, command = "ANY", self.command
                server._handle(self, command)
                return False

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        class Threads(ThreadingHTTPServer):
            daemon_threads = False
            request_queue_size = 128

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass

        self._threads = Threads(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._threads.socket = tls.wrap_socket(
                self._threads.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self._threads.server_address[1]
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._threads.serve_forever, args=(0.01,))

    def route(self, path: str, *replies: Reply) -> str:
        """Answer a path with these in turn, the last one again and again. Gives the URL."""
        left = list(replies)
        lock = threading.Lock()

        def answer(_: Asked) -> Reply:
            with lock:
                return left.pop(0) if len(left) > 1 else left[0]

        return self.on(path, answer)

    def on(self, path: str, route: Route) -> str:
        self.routes[path] = route
        return self.url + path

    def _handle(self, handler: BaseHTTPRequestHandler, method: str) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length", 0)))
        headers: dict[str, str] = {}
        for name, value in handler.headers.items():
            assert name.lower() not in headers, f"{name} came twice"
            headers[name.lower()] = value
        asked = Asked(method, handler.path, headers, body, self.over, handler.wfile.write)
        self.asked.append(asked)
        handler.close_connection = True
        reply = self.routes.get(urlsplit(handler.path).path, lambda _: Reply(404))(asked)
        if reply is not None:
            head = f"HTTP/1.1 {reply.status} Said\r\n"
            head += "".join(f"{name}: {value}\r\n" for name, value in reply.headers)
            if reply.body is not None:
                head += f"Content-Length: {len(reply.body)}\r\n"
            handler.wfile.write(head.encode() + b"\r\n" + (reply.body or b""))

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over.set()
        self._threads.shutdown()
        self._thread.join()
        self._threads.server_close()


class Connections:
    """What ``core.http`` asks of the secrets of a run."""

    def __init__(self, held: Mapping[str, JsonObject]) -> None:
        self._held = held

    def __getitem__(self, name: str) -> Json:
        raise StepFailed(f"no value {name!r}", code="unknown_secret")

    def get(self, name: str, default: Json = None) -> Json:
        return default

    def connection(self, name: str) -> JsonObject:
        return self._held[name]


@dataclass
class Client:
    """Calls ``core.http``. ``lines`` is what it logged; ``chance`` is what stands for randomness."""

    clock: Clock = field(default_factory=SystemClock)
    network: Network = SYSTEM
    connections: Mapping[str, JsonObject] = field(default_factory=dict)
    cancelled: threading.Event = field(default_factory=threading.Event)
    deadline: float | None = None
    chance: float = 0.5
    lines: list[str] = field(default_factory=list)

    def ask(self, url: str, **input: Any) -> Any:
        """The output of an answer that is no error."""
        outcome = self.outcome(url, **input)
        assert not outcome.operational_errors, outcome.operational_errors
        return outcome.output

    def outcome(self, url: str, **input: Any) -> Outcome:
        call = StepCall(
            step_id="get",
            path="get",
            execution_id="execution-1",
            attempt=1,
            idempotency_key="execution-1:get",
            store=cast(DataStore, None),
            clock=self.clock,
            log=lambda level, message, data=None: self.lines.append(message),
            cancelled=self.cancelled,
            deadline=self.deadline,
            secrets=Connections(self.connections),
            engine=cast(Engine, None),
        )
        return request(call, {"url": url, **input}, network=self.network, chance=lambda: self.chance)

    def fails(self, url: str, **input: Any) -> StepFailed:
        """The failure of a call without an answer."""
        try:
            outcome = self.outcome(url, **input)
        except StepFailed as failed:
            return failed
        raise AssertionError(f"it gave {outcome}")


def recording(
    names: Mapping[str, Sequence[str]], guard: Guard, allowed: Callable[[str], bool] = lambda address: False
) -> tuple[Network, list[str]]:
    """A network that knows these names, and the addresses that it was to connect to. Only those ``allowed`` are really
    connected to."""
    reached: list[str] = []

    def look_up(host: str, port: int) -> Sequence[str]:
        return names[host] if host in names else resolve(host, port)

    def reach(address: str, port: int, watch: Any) -> Any:
        reached.append(address)
        if not allowed(address):
            raise ConnectionRefusedError(111, "Connection refused")
        return connect(address, port, watch)

    return Network(look_up, reach, guard, SYSTEM.tls), reached


def echo(asked: Asked) -> Reply:
    """Give the body back, as what it came as."""
    kind = asked.headers.get("content-type", "application/octet-stream")
    return Reply(200, [("Content-Type", kind)], asked.body)


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)
