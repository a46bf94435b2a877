"""One connection to a server, plain or with TLS, on which every wait is bounded by a watch."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar

import httpcore2

from flo.engine.values import shown
from flo.steps.http_network import Network, Watch

T = TypeVar("T")

_PART: Final = 64 * 1024
_BEGINNING: Final = b"HTTP/"
_TOLD: Final = 50


class TlsFailed(Exception):
    """No secure connection came about, or it broke."""


class NoHttp(Exception):
    """What the server sends is another protocol."""


class Wire:
    """Connects when httpcore2 asks for it, once. ``sent`` says that some of the request may have reached the server,
    ``ended`` that the server has closed its side."""

    def __init__(self, network: Network, watch: Watch) -> None:
        self._network, self._watch = network, watch
        self._begun = b""
        self.sent = self.ended = False

    def came(self, data: bytes) -> None:
        """Take note of what came, nothing at the end. Raises ``NoHttp`` for what an answer never begins with: httpcore2
        would wait for its end, and could not tell it from an answer that was cut off."""
        self.ended = self.ended or not data
        if len(self._begun) < len(_BEGINNING):
            self._begun += data[:_TOLD]
            if not self._begun.startswith(_BEGINNING[: len(self._begun)]):
                raise NoHttp(f"it begins with {shown(self._begun.decode('latin-1'))}")

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> PlainStream:
        """As ``httpcore2.NetworkBackend`` has it; the watch sets the time."""
        return PlainStream(self, self._network.reach(host, port, self._watch), self._watch)


class PlainStream:
    """A ``httpcore2.NetworkStream`` over a connected socket."""

    def __init__(self, wire: Wire, connected: socket.socket, watch: Watch) -> None:
        self._wire, self._socket, self._watch = wire, connected, watch

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What has come, nothing at the end."""
        try:
            data = self.receive(max_bytes)
        except OSError as error:
            raise httpcore2.ReadError(error.strerror or str(error)) from error
        self._wire.came(data)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send it all."""
        self._wire.sent = True
        try:
            self.send(buffer)
        except OSError as error:
            raise httpcore2.WriteError(error.strerror or str(error)) from error

    def receive(self, size: int) -> bytes:
        """Wait for up to ``size`` bytes."""
        while True:
            self._socket.settimeout(self._watch.slice())
            try:
                return self._socket.recv(size)
            except TimeoutError:
                continue

    def send(self, data: bytes) -> None:
        """Send it all."""
        rest = memoryview(data)
        while rest:
            self._socket.settimeout(self._watch.slice())
            try:
                rest = rest[self._socket.send(rest) :]
            except TimeoutError:
                continue

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> TlsStream:
        """Speak TLS on it from now on. Raises ``TlsFailed``, ``httpcore2.ConnectError``."""
        try:
            return TlsStream(self, self._wire, ssl_context, (server_hostname or "").removesuffix("."))
        except BaseException:
            self.close()
            raise

    def get_extra_info(self, info: str) -> Any:
        """Nothing that httpcore2 asks for is known."""
        return None


class TlsStream:
    """A ``httpcore2.NetworkStream`` with TLS over a plain one. The encryption works on memory, so that the waits are
    those of the plain one."""

    def __init__(self, plain: PlainStream, wire: Wire, context: ssl.SSLContext, name: str) -> None:
        self._plain, self._wire = plain, wire
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        try:
            self._pump(self._tls.do_handshake)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            raise httpcore2.ConnectError("the server closed the connection before it was secure") from error
        except ssl.SSLError as error:
            raise TlsFailed(_words(error)) from error
        except OSError as error:
            raise httpcore2.ConnectError(error.strerror or str(error)) from error

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What has come, nothing at the end."""
        try:
            data = self._pump(partial(self._tls.read, max_bytes))
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            data = b""
        except ssl.SSLError as error:
            raise TlsFailed(_words(error)) from error
        except OSError as error:
            raise httpcore2.ReadError(error.strerror or str(error)) from error
        self._wire.came(data)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send it all."""
        self._wire.sent = True
        rest = memoryview(buffer)
        try:
            while rest:
                rest = rest[self._pump(partial(self._tls.write, rest[:_PART])) :]
        except ssl.SSLError as error:
            raise TlsFailed(_words(error)) from error
        except OSError as error:
            raise httpcore2.WriteError(error.strerror or str(error)) from error

    def close(self) -> None:
        """Close the connection."""
        self._plain.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> TlsStream:
        """Never asked for: TLS within TLS is spoken to proxies."""
        raise TlsFailed("the connection is secure already")

    def get_extra_info(self, info: str) -> Any:
        """Nothing that httpcore2 asks for is known."""
        return None

    def _pump(self, act: Callable[[], T]) -> T:
        """Act, and carry bytes between the encryption and the plain stream until it is done."""
        while True:
            try:
                done = act()
            except ssl.SSLWantReadError:
                self._flush()
                if data := self._plain.receive(_PART):
                    self._incoming.write(data)
                else:
                    self._incoming.write_eof()
            except ssl.SSLError:
                self._tell()
                raise
            else:
                self._flush()
                return done

    def _flush(self) -> None:
        if data := self._outgoing.read():
            self._plain.send(data)

    def _tell(self) -> None:
        """Send the alert that says why this side gives up, if the other one still listens."""
        try:
            self._flush()
        except OSError:
            return


def _words(error: ssl.SSLError) -> str:
    reason = getattr(error, "verify_message", None)
    if reason:
        return f"its certificate is not trusted: {reason}"
    return (error.reason or str(error)).replace("_", " ").lower()
