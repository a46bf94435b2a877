"""One request and its answer, over a connection of its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, cast

import httpcore2

from flo.engine.errors import StepFailed
from flo.engine.frozen import frozen
from flo.engine.values import shown
from flo.steps.http_decoding import Undecodable, decoded
from flo.steps.http_network import Blocked, Expired, Network, Unreachable, Watch
from flo.steps.http_streams import NoHttp, TlsFailed, Wire
from flo.steps.http_urls import Url

IDEMPOTENT: Final = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PROPFIND", "REPORT", "SEARCH", "QUERY"})
"""Methods that mean the same done once or twice (RFC 9110 section 9.2.2)."""

_CITED = re.compile(r"""(?:bytearray\()?(b(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"))\)?""")


@frozen
class Header:
    """A header of a request. A ``credential`` is for the origin that it was meant for alone."""

    name: str
    value: str
    credential: bool = False


@frozen
class Hop:
    """One request."""

    method: str
    url: Url
    headers: tuple[Header, ...]
    body: bytes | None = None

    @property
    def shown(self) -> str:
        """Method and URL for messages."""
        return f"{self.method} {self.url.shown}"

    @property
    def repeatable(self) -> bool:
        """Whether it may be sent again though the server may have acted on it."""
        return self.method in IDEMPOTENT or self.header("idempotency-key") is not None

    def header(self, name: str) -> str | None:
        """The value of a header, by its name in lower case."""
        return next((held.value for held in self.headers if held.name.lower() == name), None)

    def fails(self, code: str, what: str, *, retryable: bool = False) -> StepFailed:
        """The failure of this request."""
        return StepFailed(f"{self.shown}: {what}", code=code, retryable=retryable)


Fields = Sequence[tuple[str, str]]
"""Headers of an answer: names in lower case, in the order in which they came."""


@frozen
class Answer:
    """What came back: ``body`` without the compression that ``headers`` may name."""

    status: int
    headers: Fields
    body: bytes

    def header(self, name: str) -> str | None:
        """The first value of a header, by its name in lower case."""
        return first(self.headers, name)

    def joined(self, name: str) -> str:
        """Every value of a header that is a list, by its name in lower case (RFC 9110 section 5.3)."""
        return ", ".join(value for held, value in self.headers if held == name)


def first(headers: Fields, name: str) -> str | None:
    """The first value of a header, by its name in lower case."""
    return next((value for held, value in headers if held == name), None)


def bodiless(method: str, status: int) -> bool:
    """Say whether an answer has no body, whatever its headers say (RFC 9112 section 6.3)."""
    return method == "HEAD" or status in (204, 304)


def exchange(hop: Hop, network: Network, watch: Watch, limit: int, leads_on: Callable[[int, Fields], bool]) -> Answer:
    """Send a request, and read the answer: ``limit`` bytes of its body at most, none where the answer ``leads_on``.

    Raises ``StepFailed``, retryable where the network failed and it can do no harm to send it again; ``RunCancelled``.
    """
    wire = Wire(network, watch)
    with _told(hop, wire, watch):
        connection = _connection(hop, network, wire)
        try:
            response = connection.handle_request(_request(hop))
            headers = [(name.decode("ascii").lower(), _text(value)) for name, value in response.headers]
            answer = Answer(response.status, headers, b"")
            if leads_on(answer.status, headers):
                return answer
            chunks = cast("Iterator[bytes]", iter(cast(Any, response.stream)))
            return replace(answer, body=_read(hop, answer, chunks, limit))
        finally:
            connection.close()


def _connection(hop: Hop, network: Network, wire: Wire) -> httpcore2.HTTPConnection:
    url = hop.url
    origin = httpcore2.Origin(url.scheme.encode(), url.host.encode(), url.port)
    context = None
    if url.scheme == "https":
        try:
            context = network.tls()
        except OSError as error:
            raise TlsFailed(f"the trusted certificates cannot be read: {error}") from error
    return httpcore2.HTTPConnection(origin, ssl_context=context, network_backend=cast(Any, wire))


def _request(hop: Hop) -> httpcore2.Request:
    url = hop.url
    headers = [(held.name.encode(), held.value.encode()) for held in hop.headers]
    if hop.header("host") is None:
        headers.insert(0, (b"Host", url.authority.encode()))
    if hop.body is not None or hop.method in ("POST", "PUT", "PATCH"):
        headers.append((b"Content-Length", b"%d" % len(hop.body or b"")))
    headers.append((b"Connection", b"close"))
    target = httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target)
    return httpcore2.Request(hop.method, target, headers=headers, content=hop.body or None)


def _read(hop: Hop, answer: Answer, chunks: Iterator[bytes], limit: int) -> bytes:
    """The body, counted while it comes."""
    codings = answer.joined("content-encoding")
    announced = answer.header("content-length") or ""
    if announced.isdecimal() and int(announced[:20]) > limit and not bodiless(hop.method, answer.status):
        raise _too_large(hop, f"it has {int(announced[:20]):,} bytes", limit)
    read = bytearray()
    try:
        for chunk in decoded(_counted(hop, chunks, limit), codings):
            read += chunk
            if len(read) > limit:
                raise _too_large(hop, "it goes on", limit)
    except Undecodable as error:
        raise hop.fails("decode_error", f"the body {error}") from error
    return bytes(read)


def _counted(hop: Hop, chunks: Iterator[bytes], limit: int) -> Iterator[bytes]:
    """Bound what is read before it is decompressed: that may go on for ever and give nothing."""
    count = 0
    for chunk in chunks:
        count += len(chunk)
        if count > limit:
            raise _too_large(hop, "it goes on", limit)
        yield chunk


def _too_large(hop: Hop, size: str, limit: int) -> StepFailed:
    return hop.fails("too_large", f"the body is too large: {size}, the limit is {limit:,} bytes (maxResponseBytes)")


@contextmanager
def _told(hop: Hop, wire: Wire, watch: Watch) -> Iterator[None]:
    """Word what goes wrong on the way."""
    try:
        yield
    except Blocked as error:
        what = f"{error.address}, the address of {error.host!r}, is {error.why}: blocked"
        raise hop.fails("blocked_address", what) from error
    except Expired as error:
        what = f"no whole answer within {watch.seconds * 1000:,.0f} ms"
        raise hop.fails("timeout", what, retryable=_harmless(hop, wire)) from error
    except TlsFailed as error:
        raise hop.fails("tls_error", str(error)) from error
    except NoHttp as error:
        raise hop.fails("invalid_response", f"what came is no HTTP answer: {error}") from error
    except (Unreachable, httpcore2.NetworkError) as error:
        raise hop.fails("connection_failed", str(error), retryable=_harmless(hop, wire)) from error
    except httpcore2.RemoteProtocolError as error:
        if wire.ended:
            what = "the server closed the connection before the answer was complete"
            raise hop.fails("connection_failed", what, retryable=_harmless(hop, wire)) from error
        raise hop.fails("invalid_response", f"what came is no HTTP answer: {_words(error)}") from error
    except httpcore2.LocalProtocolError as error:
        raise hop.fails("invalid_request", f"it cannot be sent: {str(error)[:200]}") from error


def _harmless(hop: Hop, wire: Wire) -> bool:
    return hop.repeatable or not wire.sent


def _words(error: httpcore2.RemoteProtocolError) -> str:
    """What is wrong with an answer. The line that it is about is cited as Python's bytes."""
    said = _CITED.sub(lambda found: shown(ast.literal_eval(found[1]).decode("latin-1")), str(error))
    return said[:1].lower() + said[1:200]


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
