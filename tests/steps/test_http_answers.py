"""``core.http``: what a step gives of an answer, byte by byte."""

from __future__ import annotations

import base64
import gzip
import threading
import tracemalloc
import zlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from flo.engine.clock import SystemClock
from flo.engine.errors import RunCancelled
from flo.engine.step import Outcome
from flo.steps.http_answers import output_of
from flo.steps.http_exchange import Answer, Hop
from flo.steps.http_network import Watch
from flo.steps.http_urls import read_url
from flo.testing import FrozenClock

from .http_server import NOBODY, Asked, Client, Reply, Server

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
JSON = "application/json"
LATIN = "text/plain; charset=iso-8859-1"
UMLAUT = "Käse".encode("latin-1")
MIB = 1024 * 1024


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        yield made


def given(server: Server, body: bytes, media: str | None, *headers: tuple[str, str], **input: Any) -> Outcome:
    """The outcome of an answer with this body."""
    own = [] if media is None else [("Content-Type", media)]
    return Client().outcome(server.route("/", Reply(200, [*own, *headers], body)), **input)


@pytest.mark.parametrize(
    ("body", "media", "value", "encoding"),
    [
        (b'{"id":7615917337495251231,"n":18446744073709551616,"f":1.0}', JSON,
         {"id": 7615917337495251231, "n": 2**64, "f": 1.0}, "json"),
        (b"\xef\xbb\xbf[1]", "application/problem+json", [1], "json"),
        (UMLAUT.join([b'"', b'"']), "application/json; charset=latin-1", "Käse", "json"),
        (b"", JSON, None, None),
        (b"null", JSON, None, "json"),
        (UMLAUT, LATIN, "Käse", "text"),
        (UMLAUT, "text/plain; charset=utf-8", base64.b64encode(UMLAUT).decode(), "base64"),
        (UMLAUT, "text/plain; charset=klingon", base64.b64encode(UMLAUT).decode(), "base64"),
        (b"a", "text/plain; charset=rot13", "YQ==", "base64"),
        ("Käse".encode("utf-16"), "text/plain; charset=latin-1", "Käse", "text"),
        ("Käse".encode("utf-8-sig"), "text/plain", "Käse", "text"),
        (b"a\x00b", "text/plain", "YQBi", "base64"),
        (b"[1]", "text/plain", "[1]", "text"),
        (b"<a/>", "application/atom+xml", "<a/>", "text"),
        (b"", "text/html", "", "text"),
        (b"", "image/png", None, None),
        (b"[1]", None, "[1]", "text"),
        (b"\xff", None, "/w==", "base64"),
        (PNG, "image/png", base64.b64encode(PNG).decode(), "base64"),
        (b"plain", "application/octet-stream", "cGxhaW4=", "base64"),
    ],
)  # fmt: skip
def test_a_body_is_read_by_its_media_type_and_decoded_strictly(
    server: Server, body: bytes, media: str | None, value: Any, encoding: str | None
) -> None:
    outcome = given(server, body, media)
    output = outcome.output
    assert (output["body"], output["bodyEncoding"]) == (value, encoding)
    assert type(output["body"]) is type(value)
    assert outcome.warnings == ()
    assert "json_error" not in output


@pytest.mark.parametrize(
    ("body", "kept", "words"),
    [
        (b"<html>down</html>", "<html>down</html>", "is no JSON: line 1, column 1: "),
        (b'{"a":\n NaN}', '{"a":\n NaN}', "is no JSON: line 2, column 2: "),
        (b'[1e400]', "[1e400]", "is no JSON: line 1, column 2: "),
        (b"9" * 5000, "9" * 5000, "4,300"),
        (b'{"a":1,"a":2}', '{"a":1,"a":2}', "is no JSON: line 1, column 8: "),
        (b'"\\ud800"', '"\\ud800"', "is no JSON: "),
        (b'["\\u0000"]', '["\\u0000"]', "U+0000 cannot be stored"),
        (b'"\xff"', "Iv8i", "is no text in utf-8"),
    ],
)  # fmt: skip
def test_what_calls_itself_json_and_is_none_is_kept_as_it_came_with_a_warning(
    server: Server, body: bytes, kept: str, words: str
) -> None:
    outcome = given(server, body, JSON)
    assert outcome.output["body"] == kept
    assert outcome.output["bodyEncoding"] == ("base64" if kept == "Iv8i" else "text")
    assert words in str(outcome.output["json_error"])
    [warning] = outcome.warnings
    assert words in warning
    assert outcome.operational_errors == ()


def test_json_that_nests_too_deep_is_a_failure(server: Server) -> None:
    failed = Client().fails(server.route("/", Reply(200, [("Content-Type", JSON)], b"[" * 100_000)))
    assert (failed.code, failed.retryable) == ("decode_error", False)
    assert "nests deeper than 200" in failed.message


BROKEN = b"[" + b"[]," * 300 + b'"' + b"a" * MIB + b'",x]'
"""One character of a large body is wrong, the last but one: what it takes to find it is not to be waited for."""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (BROKEN, f"is no JSON: line 1, column {len(BROKEN) - 1}: it cannot be read as JSON: expecting value"),
        (BROKEN[:-2] + b'{"a":1,"a":1}]', "is no JSON: it cannot be read as JSON: a repeated key"),
        (BROKEN[:-2] + rb'"\\\u0000"]', "the body holds what cannot be stored: the character U+0000"),
    ],
)
def test_a_large_body_that_is_no_json_is_told_without_a_search(server: Server, body: bytes, words: str) -> None:
    outcome = given(server, body, JSON)
    assert outcome.output["body"] == body.decode()
    assert str(outcome.output["json_error"]).endswith(words)


def test_reading_a_large_body_gives_way_and_ends_with_the_time_of_the_step(server: Server) -> None:
    hop, answer = Hop("GET", read_url(NOBODY), ()), Answer(200, [("content-type", JSON)], BROKEN)
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(RunCancelled):
        output_of(hop, answer, Watch(SystemClock(), stopped, 60))

    class Leaping(FrozenClock):
        """It is late when the date is looked at, which is after the answer has come."""

        def now(self) -> datetime:
            self.forward(timedelta(days=1))
            return super().now()

    url = server.route("/", Reply(500, [("Content-Type", JSON)], BROKEN))
    failed = Client(clock=Leaping(), deadline=60.0).fails(url)
    assert (failed.code, failed.retryable) == ("timeout", False)
    assert failed.message == f"GET {url}: the time of the step was over before the body was read"


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
def test_an_answer_without_a_body_gives_null(server: Server, method: str, status: int) -> None:
    def answer(asked: Asked) -> None:
        asked.write(b"HTTP/1.1 %d Said\r\nContent-Type: text/plain\r\n" % status)
        asked.write(b"Content-Encoding: br\r\nContent-Length: 99999999\r\n\r\n")

    output = Client().ask(server.on("/", answer), method=method)
    assert (output["status"], output["body"], output["bodyEncoding"]) == (status, None, None)


def test_headers_have_lower_case_names_and_only_set_cookie_is_a_list(server: Server) -> None:
    headers = [
        ("X-One", "1"), ("Via", "a"), ("VIA", "b"), ("Set-Cookie", "a=1; Expires=Wed, 01 Jan"), ("set-cookie", "b=2"),
        ("X-Umlaut", "Käse"),
    ]  # fmt: skip
    output = given(server, b"", None, *headers).output
    assert output["headers"] == {
        "x-one": "1", "via": "a, b", "set-cookie": ["a=1; Expires=Wed, 01 Jan", "b=2"], "x-umlaut": "Käse",
        "content-length": "0",
    }  # fmt: skip


def test_an_error_of_the_server_is_operational_and_its_output_readable(server: Server) -> None:
    url = server.route("/orders/5", Reply(404, [("Content-Type", JSON)], b'{"why":"gone"}'))
    outcome = Client().outcome(url + "?key=secret")
    assert outcome.operational_errors == (f"HTTP 404 Not Found from GET {url}",)
    assert (outcome.output["status"], outcome.output["body"]) == (404, {"why": "gone"})
    assert outcome.retryable is False


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


TEXT = b"abc" * 50_000
PACKED = gzip.compress(TEXT, mtime=0)


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", PACKED),
        ("X-GZIP", gzip.compress(TEXT[:70_000], mtime=0) + gzip.compress(TEXT[70_000:], mtime=0) + b"\x00" * 20),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", raw_deflate(TEXT)),
        ("identity", TEXT),
        ("deflate, gzip", gzip.compress(zlib.compress(TEXT), mtime=0)),
    ],
)
def test_compression_is_taken_off(server: Server, coding: str, body: bytes) -> None:
    assert given(server, body, "text/plain", ("Content-Encoding", coding)).output["body"] == TEXT.decode()
    assert server.asked[0].headers["accept-encoding"] == "gzip, deflate"


def test_compression_that_several_headers_name_is_taken_off(server: Server) -> None:
    headers = [("Content-Encoding", "deflate"), ("content-encoding", "gzip")]
    body = gzip.compress(zlib.compress(TEXT), mtime=0)
    assert given(server, body, "text/plain", *headers).output["body"] == TEXT.decode()


@pytest.mark.parametrize("codings", [["br, gzip"], ["gzip", "br"]])
def test_a_compression_that_is_not_known_stays_on(server: Server, codings: list[str]) -> None:
    output = given(server, PACKED, "text/plain", *(("Content-Encoding", coding) for coding in codings)).output
    assert (output["body"], output["bodyEncoding"]) == (base64.b64encode(PACKED).decode(), "base64")


@pytest.mark.parametrize("body", [PACKED[:-4], b"no gzip at all", PACKED[:1]])
def test_a_body_that_is_not_compressed_as_it_says_is_a_failure(server: Server, body: bytes) -> None:
    failed = Client().fails(server.route("/", Reply(200, [("Content-Encoding", "gzip")], body)))
    assert (failed.code, failed.retryable) == ("decode_error", False)


BOMB = gzip.compress(bytes(32 * MIB), 1, mtime=0)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, [("Content-Encoding", "gzip")], BOMB),
        Reply(200, [("Content-Encoding", "gzip, gzip")], gzip.compress(BOMB, mtime=0)),
        Reply(200, [("Content-Length", str(32 * MIB))], None),
    ],
)
def test_a_bomb_is_given_up_before_it_fills_the_memory(server: Server, reply: Reply) -> None:
    url = server.route("/", reply)
    tracemalloc.start()
    failed = Client().fails(url, maxResponseBytes=MIB)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (failed.code, failed.retryable) == ("too_large", False)
    assert "the limit is 1,048,576 bytes (maxResponseBytes)" in failed.message
    assert peak < 8 * MIB


def test_a_body_without_end_is_given_up_at_the_limit(server: Server) -> None:
    """In chunks, so that no length is announced; and gzip that gives nothing, however much comes."""

    def endless(asked: Asked) -> None:
        asked.write(b"HTTP/1.1 200 Said\r\nContent-Encoding: gzip\r\n\r\n")
        while not asked.over.is_set():
            asked.write(gzip.compress(b"") * 1000)

    assert Client().fails(server.on("/", endless), maxResponseBytes=100_000).code == "too_large"


def test_a_limit_is_kept_to_the_byte(server: Server) -> None:
    url = server.route("/", Reply(200, [("Content-Type", "text/plain")], b"12345"))
    assert Client().ask(url, maxResponseBytes=5)["body"] == "12345"
    assert Client().fails(url, maxResponseBytes=4).message.endswith("it has 5 bytes, the limit is 4 bytes "
                                                                    "(maxResponseBytes)")  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"HTTP/1.1 200 Said\r\nContent-Length: 10\r\n\r\n123", "connection_failed"),
        (b"HTTP/1.1 200 Said\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "connection_failed"),
        (b"", "connection_failed"),
        (b"HTT", "connection_failed"),
        (b"HTTP/1.1 200", "connection_failed"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "invalid_response"),
        (b"<html><p>busy", "invalid_response"),
        (b"HTTP/1.1 101 Switched\r\nUpgrade: x\r\n\r\n", "invalid_response"),
        (b"HTTP/1.1 200 Said\r\nX: " + b"a" * 300_000, "invalid_response"),
    ],
)
def test_half_an_answer_is_a_failure_and_never_a_short_body(server: Server, sent: bytes, code: str) -> None:
    failed = Client().fails(server.on("/", lambda asked: asked.write(sent) and None))
    assert (failed.code, failed.retryable) == (code, code == "connection_failed")
    assert len(failed.message) < 400


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", 'it begins with "SSH-2.0-OpenSSH_9.2\\r\\n"'),
        (b"HTTP/1.1 two hundred\r\n\r\n", 'illegal status line: "HTTP/1.1 two hundred"'),
        (b"HTTP/1.1 200 Said\r\nno 'header' \xff\r\n\r\n", "illegal header line: \"no 'header' \u00ff\""),
    ],
)
def test_what_is_no_http_is_told_at_once_and_as_it_came(server: Server, sent: bytes, words: str) -> None:
    """The connection stays open: nothing waits for its end."""

    def answer(asked: Asked) -> None:
        asked.write(sent)
        asked.over.wait()

    url = server.on("/", answer)
    assert Client().fails(url).message == f"GET {url}: what came is no HTTP answer: {words}"
