"""How workers on PostgreSQL are told that something came due: by a session that listens."""

from __future__ import annotations

import random
import selectors
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import psycopg

from flo.engine.errors import StoreError
from flo.engine.stores.postgres_connections import Address
from flo.engine.stores.postgres_session import Connection
from flo.engine.stores.sql_queues import CHANNEL

_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 5.0


class PostgresWakeups:
    """The ``Wakeups`` of the PostgreSQL store.

    The session is its own, none of those that statements share: a listener would hold it for ever. Where it is lost,
    ``wait`` makes a new one, and tells that something may have been missed.
    """

    def __init__(self, address: Address, queues: Iterable[str]) -> None:
        self._address, self._queues = address, frozenset(queues)
        self._bell, self._ear = socket.socketpair()
        self._bell.setblocking(False)
        self._ear.setblocking(False)
        self._connection: Connection | None = None
        self._failures = 0
        self._next_try = 0.0
        self._listen()

    def wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while True:
            if self._connection is None and time.monotonic() >= self._next_try and self._listen():
                return True
            if self._told():
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if self._connection is None:
                left = min(left, max(0.0, self._next_try - time.monotonic()))
            if self._sleep(left):
                return True

    def wake(self) -> None:
        with suppress(OSError):  # full: it rings already; closed: nobody waits
            self._bell.send(b"!")

    def close(self) -> None:
        self._drop()
        self._bell.close()
        self._ear.close()

    def _listen(self) -> bool:
        """Open the session. A server that is away is asked again after a pause, ever longer, each worker's its own."""
        try:
            self._connection = self._address.connect()
            self._connection.execute(f"LISTEN {CHANNEL}".encode())
        except (StoreError, psycopg.Error):
            self._drop()
            self._failures += 1
            pause = min(_FIRST_PAUSE_SECONDS * 2 ** min(self._failures, 10), _LONGEST_PAUSE_SECONDS)
            self._next_try = time.monotonic() + pause * random.uniform(0.5, 1.0)
            return False
        self._failures = 0
        return True

    def _told(self) -> bool:
        """Read what the server sent: whether one of the queues is named there."""
        if self._connection is None:
            return False
        session = self._connection.pgconn
        told = False
        try:
            session.consume_input()
            while notice := session.notifies():
                told = told or notice.extra.decode("utf-8", "replace") in self._queues
            if session.status != psycopg.pq.ConnStatus.OK:
                raise psycopg.OperationalError("the session has ended")
        except psycopg.Error:
            self._drop()
            self._next_try = 0.0
        return told

    def _sleep(self, seconds: float) -> bool:
        """Wait for the server, for ``wake``, or so long; whether it was ``wake``."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._ear, selectors.EVENT_READ)
            if self._connection is not None:
                selector.register(self._connection.fileno(), selectors.EVENT_READ)
            ready = [key.fileobj for key, _ in selector.select(seconds)]
        if self._ear not in ready:
            return False
        with suppress(BlockingIOError):
            while self._ear.recv(4096):
                pass
        return True

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
