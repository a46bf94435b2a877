"""Connections to PostgreSQL: where a URL leads, how a session is set up, and the idle ones kept for the next use."""

from __future__ import annotations

import os
import re
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.string import TextLoader

from flo.engine.errors import InputInvalid, StoreClosed, StoreUnavailable
from flo.engine.stores.postgres_errors import no_session
from flo.engine.stores.postgres_session import Connection, Session

_SESSION: Final = {
    "search_path": "flo",
    "timezone": "UTC",
    "extra_float_digits": "1",
    "default_transaction_isolation": "read\\ committed",
    "lock_timeout": "30s",
    "idle_in_transaction_session_timeout": "60s",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "enable_bitmapscan": "off",
    "enable_seqscan": "off",
}
"""Locks of ours are held for milliseconds.

The statistics of a queue are always behind its rows. Plans made anew for each value would take as long as the claim,
compiled ones longer; bitmaps would collect and sort all pending rows, where an index has them in order; and a plan made
while a table was small would read all of it for ever.
"""

_CONNECT: Final = {
    "connect_timeout": "5",
    "application_name": "flo",
    "client_encoding": "UTF8",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}
_WAIT_SECONDS: Final = 30.0

_CREDENTIALS: Final = re.compile(r"//([^:@/?]*):(.*)@", re.DOTALL)
_SECRET_OPTION: Final = re.compile(r"(?<=[?&])((?:ssl)?password)=([^&]*)", re.IGNORECASE)


class Address:
    """Where a URL leads. ``shown`` is the URL without any password."""

    def __init__(self, url: str) -> None:
        plain = re.sub(r"^postgres(ql)?(\+psycopg)?:", "postgresql:", url)
        self.shown = _SECRET_OPTION.sub(r"\1=***", _CREDENTIALS.sub(r"//\1@", url))
        secrets = [found[2] for found in (*_CREDENTIALS.finditer(url), *_SECRET_OPTION.finditer(url))]
        try:
            given = conninfo_to_dict(plain)
        except psycopg.Error:  # its text may show a piece of the password
            raise InputInvalid(
                "store URL",
                "cannot be read; write postgresql://user:password@host:port/database,"
                " with %40 for @, %2F for / and %25 for % in the password",
            ) from None
        secrets += [str(given[name]) for name in ("password", "sslpassword") if given.get(name)]
        self._secrets = sorted({text for secret in secrets for text in (secret, unquote(secret)) if text}, key=len)
        session = " ".join(f"-c {name}={value}" for name, value in _SESSION.items())
        self._parameters = {**_CONNECT, **given, "options": f"{session} {given.get('options') or ''}".strip()}

    def connect(self) -> Connection:
        """Open a session. Raises ``StoreUnavailable``, whose message holds no password."""
        try:
            connection: Connection = psycopg.connect(
                **self._parameters,  # type: ignore[arg-type]
                autocommit=True,
            )
        except psycopg.Error as error:
            raise self._unavailable(error) from None  # the driver's own text may quote the URL
        for name in ("json", "jsonb"):  # JSON is read once, by us, so that numbers stay as they are written
            connection.adapters.register_loader(name, TextLoader)
        return connection

    def _unavailable(self, error: psycopg.Error) -> StoreUnavailable:
        text = str(no_session(error, self.shown))
        for secret in reversed(self._secrets):
            text = text if secret in self.shown else text.replace(secret, "***")
        return StoreUnavailable(text)


class Connections:
    """The sessions of one store: up to ``limit`` at once, the last one given back is the first to be lent again.

    A caller's own thread connects, so that a server that is not there is told at once and with its reason.
    """

    def __init__(self, address: Address, limit: int) -> None:
        self._address = address
        self._limit = limit
        self._free = threading.BoundedSemaphore(limit)
        self._idle: list[Session] = []
        self._process = os.getpid()
        self._inherited: list[Session] = []
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def lend(self) -> Iterator[Session]:
        """Lend a session. One that came to harm is not kept."""
        if not self._free.acquire(timeout=_WAIT_SECONDS):
            raise StoreUnavailable(
                f"{self._address.shown}: all {self._limit} connections have been in use for {_WAIT_SECONDS:.0f} s"
            )
        try:
            session = self._take()
            try:
                yield session
            finally:
                self._give_back(session)
        finally:
            self._free.release()

    def close(self) -> None:
        """Close the idle sessions, and the others when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for session in idle:
            session.close()

    def _take(self) -> Session:
        while True:
            with self._lock:
                if self._closed:
                    raise StoreClosed(f"{self._address.shown} is closed")
                if self._process != os.getpid():  # forked: these sessions are the parent's, not to be used or ended
                    self._inherited, self._idle, self._process = self._idle, [], os.getpid()
                session = self._idle.pop() if self._idle else None
            if session is None:
                return Session(self._address.connect())
            if not _has_news(session.connection):
                return session
            session.close()

    def _give_back(self, session: Session) -> None:
        with self._lock:
            keep = session.sound and not self._closed
            if keep:
                self._idle.append(session)
        if not keep:
            session.close()


def _has_news(connection: Connection) -> bool:
    """Whether an idle session's server has sent something: mostly that it is gone."""
    if connection.closed:
        return True
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([connection.fileno()], [], [], 0)[0])
