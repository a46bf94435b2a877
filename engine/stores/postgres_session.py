"""A session of PostgreSQL: statements go out together, answers are read in turn, and what is said again is prepared.

It stands on the driver's own interface to the server. The cursors above that take longer for a statement than the
server does, and wait for each answer, which costs most where several threads want to go on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping
from itertools import count
from typing import Any, Final, NamedTuple

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.waiting import Ready, Wait

from flo.engine.abreast import crew

Connection = psycopg.Connection[tuple[Any, ...]]
Rows = list[tuple[Any, ...]]
Answer = Callable[[Rows], object]

_KEPT: Final = 128
"""So many statements are remembered, and those said twice are prepared."""

_SOUND: Final = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK, ExecStatus.EMPTY_QUERY)

_Known = tuple[bytes, tuple[int, ...]]
"""A statement, and the types of its values: another type may make it another statement."""


class Statement(NamedTuple):
    """A statement as the server reads it, with ``$1``, and the names of its values in that order."""

    text: bytes
    names: tuple[str, ...] = ()


class _Expected(NamedTuple):
    """An answer that is to come: what takes its rows, or the statement that it says is prepared."""

    answer: Answer | None = None
    prepared: _Known | None = None


_SYNC: Final = None
"""The end of what goes together: after a failure the server passes over all until there."""


class Session:
    """One session. Used by one thread at a time.

    What ``send`` takes is under way at the latest with the next ``ask``, ``hear`` or ``sync``, and answered then. The
    first failure among these answers is raised there, and what was sent after it was not done.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._server = connection.pgconn
        self._server.enter_pipeline_mode()
        self._adapting = Transformer(connection)
        self._expected: deque[_Expected | None] = deque()
        self._sent = 0
        """How many answers were ever expected."""
        self._known: dict[_Known, bytes] = {}
        """The names of prepared statements, empty for those that were said once; the latest last."""
        self._numbers = count(1)

    @property
    def sound(self) -> bool:
        """Whether it can be used again: outside any transaction, and nothing is to come."""
        idle = not self.connection.closed and self._server.transaction_status == TransactionStatus.IDLE
        return idle and not self._expected

    def send(self, statement: Statement, values: Mapping[str, object], answer: Answer | None = None) -> None:
        """Send a statement, and give its rows to ``answer`` once they are read."""
        text, names = statement
        adapting = self._adapting
        given = adapting.dump_sequence([values[name] for name in names], [PyFormat.AUTO] * len(names))
        types = adapting.types or ()
        if name := self._name(text, types):
            self._server.send_query_prepared(name, given, adapting.formats)
        else:
            self._server.send_query_params(text, given, types, adapting.formats)
        self._expect(_Expected(answer))

    def ask(self, statement: Statement, values: Mapping[str, object]) -> Rows:
        """Send a statement and give its rows. While the server is at it, those abreast of the caller go on."""
        rows: Rows = []
        others = crew()
        abreast = others is not None and others.waits_for(self)
        self.send(statement, values, rows.extend)
        if others is None or not abreast:
            self.hear()
            return rows
        mine = self._sent
        self._server.send_flush_request()
        self._server.flush()
        others.pass_on()
        self._read(mine)
        return rows

    def hear(self) -> None:
        """Wait for the answers to all that was sent."""
        self._server.send_flush_request()
        self._read()

    def sync(self) -> None:
        """Wait until all is done that was sent. What is not in a transaction of its own is committed by then."""
        self._server.pipeline_sync()
        self._expect(_SYNC)
        self._read()

    def close(self) -> None:
        """End the session."""
        self.connection.close()

    def _expect(self, expected: _Expected | None) -> None:
        self._expected.append(expected)
        self._sent += 1

    def _name(self, text: bytes, types: tuple[int, ...]) -> bytes:
        """The name under which a statement is prepared, which it is when it comes a second time."""
        statement = text, types
        name = self._known.pop(statement, None)
        if name == b"":
            name = b"flo_%d" % next(self._numbers)
            self._server.send_prepare(name, text, types)
            self._expect(_Expected(prepared=statement))
        self._known[statement] = name or b""
        if len(self._known) > _KEPT and (oldest := self._known.pop(next(iter(self._known)))):
            self._server.send_query_params(b"DEALLOCATE " + oldest, None)
            self._expect(_Expected())
        return name or b""

    def _read(self, until: int | None = None) -> None:
        """Read all answers that are to come, or those ``until`` so many have been there, and raise the first failure:
        after one nothing is to come any more."""
        if self._server.flush():
            self.connection.wait(self._sending())
        failure: Exception | None = None
        while self._expected and (until is None or failure is not None or self._sent - len(self._expected) < until):
            result = self._next_result()
            expected = self._expected.popleft()
            if expected is None:
                continue
            self._server.get_result()  # there is one result to each statement, and nothing after it
            if result.status in _SOUND:
                try:
                    self._tell(expected, result)
                except Exception as error:
                    failure = failure or error
                continue
            if expected.prepared is not None:
                self._known.pop(expected.prepared, None)
            if result.status != ExecStatus.PIPELINE_ABORTED:  # that one only follows a failure
                failure = failure or error_from_result(result)
                if _SYNC not in self._expected:
                    self._server.pipeline_sync()
                    self._expect(_SYNC)
                    self._server.flush()
        if failure is not None:
            raise failure

    def _tell(self, expected: _Expected, result: psycopg.pq.abc.PGresult) -> None:
        if expected.answer is None:
            return
        adapting = self._adapting
        adapting.set_pgresult(result)
        rows = adapting.load_rows(0, result.ntuples, tuple)
        adapting.set_pgresult(None)
        expected.answer(rows)

    def _next_result(self) -> psycopg.pq.abc.PGresult:
        if self._server.is_busy():
            self.connection.wait(self._arriving())
        result = self._server.get_result()
        if result is None or self.connection.broken:
            self._expected.clear()
            raise psycopg.OperationalError(self._server.get_error_message())
        return result

    def _arriving(self) -> Generator[Wait, int, None]:
        while self._server.is_busy():
            yield Wait.R
            self._server.consume_input()

    def _sending(self) -> Generator[Wait, int, None]:
        while self._server.flush():
            if (yield Wait.RW) & Ready.R:  # what has come first: the server may wait for us to read it
                self._server.consume_input()
