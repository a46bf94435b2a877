"""``core.http``: time that runs out, servers that fail, and when it is tried again."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from flo.engine.clock import SystemClock
from flo.engine.errors import RunCancelled, StepFailed
from flo.steps.http_addresses import Guard
from flo.steps.http_network import Network
from flo.steps.http_retrying import seconds_of
from flo.testing import FrozenClock

from .http_server import NOBODY, SYSTEM, Asked, Client, Reply, Server, recording


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        yield made


def drip(asked: Asked) -> None:
    """Send one byte every hundredth of a second, for ever."""
    asked.write(b"HTTP/1.1 200 Said\r\n\r\n")
    while not asked.over.wait(0.01):
        asked.write(b"x")


def drip_headers(asked: Asked) -> None:
    asked.write(b"HTTP/1.1 200 Said\r\nX-Long: ")
    while not asked.over.wait(0.01):
        asked.write(b"x")


def never(asked: Asked) -> None:
    asked.over.wait()


def in_circles(asked: Asked) -> Reply:
    asked.over.wait(0.02)
    return Reply(302, [("Location", "/")])


@pytest.mark.parametrize("route", [drip, drip_headers, never, in_circles])
def test_one_time_bounds_everything_from_the_first_byte_to_the_last(
    server: Server, route: Callable[[Asked], Any]
) -> None:
    failed = Client().fails(server.on("/", route), timeoutMilliseconds=150, maxRedirects=100)
    assert (failed.code, failed.retryable) == ("timeout", True)
    assert failed.message == f"GET {server.url}/: no whole answer within 150 ms"


def test_a_name_that_is_looked_up_for_ever_is_given_up(server: Server) -> None:
    over = threading.Event()
    network = replace(SYSTEM, resolve=lambda host, port: [str(over.wait())])
    failed = Client(network=network).fails("http://slow.example/", timeoutMilliseconds=100, method="POST")
    over.set()
    assert (failed.code, failed.retryable) == ("timeout", True)


def test_a_server_that_answers_late_has_the_time_that_the_step_gives(server: Server) -> None:
    """Nothing shorter cuts it off: it was looked at the time several times, and waited on."""
    go = threading.Event()

    def late(asked: Asked) -> Reply:
        asked.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        go.wait()
        return Reply(200, [], b"")

    class Telling(SystemClock):
        looks = 0

        def monotonic(self) -> float:
            self.looks += 1
            if self.looks > 8:
                go.set()
            return super().monotonic()

    client = Client(clock=Telling())
    assert client.ask(server.on("/", late), timeoutMilliseconds=200_000)["status"] == 200


def test_the_deadline_of_the_step_holds_whatever_the_input_says(server: Server) -> None:
    clock = SystemClock()
    client = Client(clock=clock, deadline=clock.monotonic() + 0.1)
    assert client.fails(server.on("/", drip), retryAttempts=5).code == "timeout"
    assert len(server.asked) <= 1


def test_a_stopped_clock_does_not_stop_the_time_of_a_server(server: Server) -> None:
    assert Client(clock=FrozenClock()).fails(server.on("/", drip), timeoutMilliseconds=100).code == "timeout"


def test_a_step_gives_way_in_the_middle_of_a_slow_body(server: Server) -> None:
    client = Client()

    def endless(asked: Asked) -> None:
        asked.write(b"HTTP/1.1 200 Said\r\n\r\nx")
        client.cancelled.set()
        drip(replace(asked, write=lambda data: None))

    with pytest.raises(RunCancelled):
        client.outcome(server.on("/", endless), timeoutMilliseconds=60_000)


def test_a_step_gives_way_between_two_tries(server: Server) -> None:
    client = Client()

    def refuse(asked: Asked) -> Reply:
        client.cancelled.set()
        return Reply(503, [("Retry-After", "50")])

    with pytest.raises(RunCancelled):
        client.outcome(server.on("/", refuse), retryAttempts=3)
    assert len(server.asked) == 1


class Waits(FrozenClock):
    """Keeps how long it was waited on."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.waited.append(seconds)
        return super().wait(event, seconds)


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_status_that_may_pass_is_tried_again_with_growing_waits(server: Server, status: int, method: str) -> None:
    clock = Waits()
    client = Client(clock=clock)
    url = server.route("/", *[Reply(status)] * 3, Reply(200, [("Content-Type", "text/plain")], b"there"))
    assert client.ask(url + "?secret", method=method, retryAttempts=3)["body"] == "there"
    assert clock.waited == [0.5, 1.0, 2.0]
    assert client.lines[1].endswith(f"from {method} {url}, tried 2 times; next try in 1 s")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422, 425, 499, 500, 501])
def test_any_other_status_is_an_answer_at_once(server: Server, status: int) -> None:
    outcome = Client(clock=FrozenClock()).outcome(server.route("/", Reply(status)), retryAttempts=3)
    assert (len(server.asked), len(outcome.operational_errors), outcome.retryable) == (1, 1, False)


def test_tries_that_run_out_give_the_last_answer_and_are_not_multiplied_by_the_step_around(server: Server) -> None:
    url = server.route("/", *[Reply(503)] * 2, Reply(502))
    outcome = Client(clock=FrozenClock()).outcome(url, retryAttempts=2)
    assert (len(server.asked), outcome.output["status"], outcome.retryable) == (3, 502, False)
    assert outcome.operational_errors == (f"HTTP 502 Bad Gateway from GET {url}, tried 3 times",)
    assert Client().outcome(server.route("/", Reply(503))).retryable is True
    failed = Client(clock=FrozenClock()).fails(NOBODY, retryAttempts=2)
    assert (failed.code, failed.retryable, failed.message) == (
        "connection_failed", False, f"GET {NOBODY}/: Connection refused, tried 3 times",
    )  # fmt: skip


def test_retry_after_is_heard_in_seconds_and_as_a_date_up_to_a_minute(server: Server) -> None:
    clock = Waits()
    date = format_datetime(clock.now() + timedelta(seconds=30), usegmt=True)
    past = format_datetime(clock.now() - timedelta(days=1), usegmt=True)
    asked = ["20", date, "3600", "Fri, 31 Dec 9999 23:59:59 GMT", past, "soon", "-5", ""]
    url = server.route("/", *(Reply(503, [("Retry-After", text)]) for text in asked), Reply())
    Client(clock=clock, chance=0.0).ask(url, retryAttempts=20)
    assert clock.waited == [20.0, 10.0, 60.0, 60.0, 0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Thu, 01 Jan 2026 00:01:00 GMT", 60.0),
        ("Thursday, 01-Jan-26 00:01:00 GMT", 60.0),
        ("Thu Jan  1 00:01:00 2026", 60.0),
        ("9" * 5000, 999_999_999_999_999_999.0),
        ("1.5", None),
        ("Thu, 99 Jan 2026 00:01:00 GMT", None),
        (None, None),
    ],
)
def test_retry_after_is_read_in_every_form_that_http_has(text: str | None, seconds: float | None) -> None:
    assert seconds_of(text, datetime(2026, 1, 1, tzinfo=UTC)) == seconds


def test_those_that_failed_together_do_not_come_back_together(server: Server) -> None:
    waits = set()
    for chance in (0.0, 0.25, 0.9):
        for reply in (Reply(503), Reply(503, [("Retry-After", "10")])):
            clock = Waits()
            Client(clock=clock, chance=chance).ask(server.route("/", reply, Reply()), retryAttempts=1)
            waits.add(clock.waited[0])
    assert waits == {0.0, 0.25, 0.9, 10.0, 10.25, 10.9}


def test_no_wait_is_longer_than_the_step_has_time(server: Server) -> None:
    clock = FrozenClock()
    client = Client(clock=clock, deadline=clock.monotonic() + 15)
    url = server.route("/", Reply(503, [("Retry-After", "10")]))
    assert client.outcome(url, retryAttempts=9).output["status"] == 503
    assert (len(server.asked), clock.monotonic()) == (2, 10.5)


def hang_up(asked: Asked) -> None:
    """End the connection without an answer."""


@pytest.mark.parametrize(
    ("method", "headers", "asked"),
    [("GET", {}, 3), ("PUT", {}, 3), ("DELETE", {}, 3), ("POST", {}, 1), ("PATCH", {}, 1),
     ("POST", {"idempotency-key": "k"}, 3)],
)  # fmt: skip
@pytest.mark.parametrize("reply", [None, Reply(502), Reply(504)])
def test_what_may_have_been_done_is_not_done_again(
    server: Server, method: str, headers: Any, asked: int, reply: Reply | None
) -> None:
    url = server.on("/", lambda _: reply)
    given = {"method": method, "headers": headers, "retryAttempts": 2}
    client = Client(clock=FrozenClock())
    if reply is None:
        assert client.fails(url, **given).code == "connection_failed"
    else:
        assert client.outcome(url, **given).operational_errors
    assert len(server.asked) == asked


@pytest.mark.parametrize("status", [408, 429, 503])
def test_what_was_not_done_is_tried_again_whatever_the_method(server: Server, status: int) -> None:
    Client(clock=FrozenClock()).ask(server.route("/", Reply(status), Reply()), method="POST", retryAttempts=1)
    assert len(server.asked) == 2
    network, reached = recording({}, Guard())
    failed = Client(clock=FrozenClock(), network=network).fails("http://127.0.0.1/", method="POST", retryAttempts=2)
    assert (failed.code, len(reached)) == ("connection_failed", 3)


@pytest.mark.parametrize(("status", "posts"), [(303, 1), (302, 1), (307, 2)])
@pytest.mark.parametrize("reply", [Reply(503), None])
def test_a_request_whose_result_is_fetched_elsewhere_is_not_sent_again(
    server: Server, status: int, posts: int, reply: Reply | None
) -> None:
    server.on("/result", lambda asked: reply)
    url = server.route("/", Reply(status, [("Location", "/result")]))
    key = {"idempotency-key": "k"} if status == 307 else {}
    with suppress(StepFailed):
        Client(clock=FrozenClock()).outcome(url, method="POST", body="pay", headers=key, retryAttempts=1)
    assert [asked.method for asked in server.asked if asked.target == "/"] == ["POST"] * posts


def test_a_name_that_is_not_known_is_a_failure_that_may_pass() -> None:
    def unknown(host: str, port: int) -> list[str]:
        raise OSError(-2, "Name or service not known")

    failed = Client(network=replace(SYSTEM, resolve=unknown)).fails("http://nobody.example/x", method="POST")
    assert (failed.code, failed.retryable) == ("connection_failed", True)
    assert failed.message.endswith("/x: 'nobody.example' cannot be resolved: Name or service not known")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for ``api.example`` that nobody signed but itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "api.example")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("api.example")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return file


@pytest.fixture
def secure(certificate: Path) -> Iterator[Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with Server(context) as made:
        yield made


def trusting(certificate: Path | None) -> Network:
    """A network in which every name is this machine, and this certificate is trusted."""
    network = replace(SYSTEM, resolve=lambda host, port: ["127.0.0.1"])
    if certificate is None:
        return network
    return replace(network, tls=lambda: ssl.create_default_context(cafile=str(certificate)))


def test_https_speaks_to_the_name_over_the_address_that_was_checked(secure: Server, certificate: Path) -> None:
    text = b"abc" * 100_000
    secure.on("/", lambda asked: Reply(200, [("Content-Type", "text/plain")], asked.body))
    client = Client(network=trusting(certificate))
    assert client.ask(f"https://api.example:{secure.port}/", method="POST", body=text.decode())["body"] == text.decode()
    assert secure.asked[0].headers["host"] == f"api.example:{secure.port}"


def test_https_keeps_to_the_time_and_gives_way(secure: Server, certificate: Path) -> None:
    client = Client(network=trusting(certificate))
    url = f"https://api.example:{secure.port}/"
    secure.on("/", drip)
    assert client.fails(url, timeoutMilliseconds=250).code == "timeout"
    secure.on("/", lambda asked: client.cancelled.set() or never(asked))
    with pytest.raises(RunCancelled):
        client.outcome(url)


@pytest.mark.parametrize(("trusted", "host"), [(False, "api.example"), (True, "other.example"), (True, "127.0.0.1")])
def test_a_certificate_that_is_not_right_is_a_failure_and_nothing_is_sent(
    secure: Server, certificate: Path, trusted: bool, host: str
) -> None:
    client = Client(network=trusting(certificate if trusted else None))
    failed = client.fails(f"https://{host}:{secure.port}/?key=secret", headers={"Authorization": "secret"})
    assert (failed.code, failed.retryable) == ("tls_error", False)
    assert "its certificate is not trusted: " in failed.message
    assert "secret" not in failed.message
    assert secure.asked == []


def test_https_to_a_server_that_does_not_speak_it_is_a_failure(server: Server) -> None:
    failed = Client().fails(server.url.replace("http:", "https:"))
    assert failed.code in ("tls_error", "connection_failed")
    assert server.asked == []


def test_trusted_certificates_that_cannot_be_read_are_a_failure_with_its_reason() -> None:
    def broken() -> ssl.SSLContext:
        raise FileNotFoundError(2, "No such file or directory")

    failed = Client(network=replace(SYSTEM, tls=broken)).fails("https://127.0.0.1:1/")
    assert (failed.code, failed.message) == (
        "tls_error",
        "GET https://127.0.0.1:1/: the trusted certificates cannot be read: [Errno 2] No such file or directory",
    )


def test_a_send_that_nobody_reads_ends_with_the_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/"
        failed = Client().fails(url, method="POST", body="x" * 30_000_000, timeoutMilliseconds=100)
    assert failed.code == "timeout"
