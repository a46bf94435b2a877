"""The network as ``core.http`` uses it: names looked up once, addresses checked, every wait bounded."""

from __future__ import annotations

import functools
import os
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from ipaddress import ip_address
from typing import Final

import httpx2

from flo.engine.clock import Clock
from flo.engine.errors import RunCancelled
from flo.engine.frozen import frozen
from flo.steps.http_addresses import Guard, guard_of

SLICE: Final = 0.05
"""Seconds for which nothing is looked at while waiting for the network: a wait that is called off ends so soon."""


class Expired(Exception):
    """The time for a try is over."""


class Blocked(Exception):
    """An address may not be reached."""

    def __init__(self, host: str, address: str, why: str) -> None:
        self.host, self.address, self.why = host, address, why
        super().__init__(f"{address} is {why}")


class Unreachable(Exception):
    """A name that cannot be resolved, or a server to which no connection comes about."""


@frozen
class Watch:
    """Bounds one try to ``seconds``, and ends it when the run is to stop.

    The time is the clock's or, where a test has stopped that, the time that really passed: a server that does not
    answer is given up in any case.
    """

    clock: Clock
    cancelled: threading.Event
    seconds: float
    _began: float = field(init=False)
    _really_began: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_began", self.clock.monotonic())
        object.__setattr__(self, "_really_began", time.monotonic())

    def left(self) -> float:
        """Seconds that are left. Raises ``Expired``, ``RunCancelled``."""
        if self.cancelled.is_set():
            raise RunCancelled("cancelled")
        passed = max(self.clock.monotonic() - self._began, time.monotonic() - self._really_began)
        if passed >= self.seconds:
            raise Expired
        return self.seconds - passed

    def slice(self) -> float:
        """Seconds to wait before looking again. Raises as ``left``."""
        return min(self.left(), SLICE)

    def share(self, parts: int) -> Watch:
        """A watch over one of so many equal parts of what is left."""
        return Watch(self.clock, self.cancelled, self.left() / parts)


@frozen
class Network:
    """What a request needs of the world.

    ``resolve`` gives the addresses of a host's name for a port, the best first, or raises ``OSError``. ``connect``
    gives a socket that is connected to an address, or raises ``OSError``. ``guard`` is asked about every address.
    ``tls`` gives the settings for https.
    """

    resolve: Callable[[str, int], Sequence[str]]
    connect: Callable[[str, int, Watch], socket.socket]
    guard: Guard
    tls: Callable[[], ssl.SSLContext]

    def reach(self, host: str, port: int, watch: Watch) -> socket.socket:
        """Connect to a host, by an address that was checked. Raises ``Blocked``, ``Unreachable``, ``Expired``,
        ``RunCancelled``."""
        addresses = self._addresses(host, port, watch)
        for address in addresses:
            if (why := self.guard.refusal(address)) is not None:
                raise Blocked(host, address, why)
        failure: Exception | None = None
        for at, address in enumerate(addresses):
            try:
                return self.connect(address, port, watch.share(len(addresses) - at))
            except (OSError, Expired) as error:
                failure = error
        watch.left()
        if isinstance(failure, OSError):
            raise Unreachable(failure.strerror or str(failure)) from failure
        raise Expired

    def _addresses(self, host: str, port: int, watch: Watch) -> Sequence[str]:
        with suppress(ValueError):
            return [str(ip_address(host))]
        try:
            addresses = _resolve_within(self.resolve, host, port, watch)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise Unreachable(f"{host!r} cannot be resolved: {reason}") from error
        if not addresses:
            raise Unreachable(f"{host!r} has no address")
        return addresses


def system_network(environ: Mapping[str, str]) -> Network:
    """The network of this machine, guarded as the environment says. Proxies of the environment are not used: behind one
    nobody could say which address is reached."""
    tls = functools.partial(_tls, environ.get("SSL_CERT_FILE") or None, environ.get("SSL_CERT_DIR") or None)
    return Network(resolve, connect, guard_of(environ), tls)


def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a name, as the system orders them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def connect(address: str, port: int, watch: Watch) -> socket.socket:
    """Connect to an address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        with suppress(BlockingIOError):
            made.connect((address, port))
        with selectors.DefaultSelector() as selector:
            selector.register(made, selectors.EVENT_WRITE)
            while not selector.select(watch.slice()):
                pass
        if code := made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(code, os.strerror(code))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        made.close()
        raise
    return made


def _resolve_within(resolve: Callable[[str, int], Sequence[str]], host: str, port: int, watch: Watch) -> Sequence[str]:
    """Look a name up in a thread of its own, since nothing can interrupt the system's resolver: one that hangs is left
    behind."""
    done = threading.Event()
    found: list[Sequence[str] | Exception] = []

    def look_up() -> None:
        try:
            found.append(resolve(host, port))
        except Exception as error:  # carried into the waiting thread
            found.append(error)
        finally:
            done.set()

    threading.Thread(target=look_up, name=f"flo-resolve-{host}", daemon=True).start()
    while not done.wait(watch.slice()):
        pass
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


@functools.cache
def _tls(file: str | None, folder: str | None) -> ssl.SSLContext:
    """The settings for https: the certificates of a file or a folder, or those that this machine trusts. It takes tens
    of milliseconds, and never changes."""
    if file or folder:
        return ssl.create_default_context(cafile=file, capath=folder)
    return httpx2.create_ssl_context(trust_env=False)
