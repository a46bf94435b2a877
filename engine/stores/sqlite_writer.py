"""The one writer of a process to a SQLite file, which commits together what came in together."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeVar

from flo.engine.errors import StoreClosed
from flo.engine.stores.sqlite_errors import locked, store_error
from flo.engine.stores.sqlite_files import BUSY_SECONDS, open_writer
from flo.engine.stores.sqlite_turnstile import Turnstile

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

_BATCH: Final = 256
_BATCH_SECONDS: Final = 0.02
"""A transaction takes in what waits until it is this old, so that the next process has its turn."""
_PATIENCE_SECONDS: Final = 2 * BUSY_SECONDS
_CLOSE_SECONDS: Final = 10.0


class _State(Enum):
    QUEUED = 1
    TAKEN = 2
    ENDED = 3


class _Request:
    """One piece of work, and what became of it."""

    def __init__(self, work: Work[Any]) -> None:
        self.work = work
        self.state = _State.QUEUED
        self.ended = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None

    def end(self, error: BaseException | None = None) -> None:
        self.error = error or self.error
        self.state = _State.ENDED
        self.ended.set()


class Writer:
    """Runs pieces of work in write transactions, in the order in which they come.

    A write that meets no other one is done in its caller's own thread, which spares it the way to another and back.
    Those that come meanwhile wait for the writer's thread, which commits them together. Each but the first stands in a
    savepoint of its own, so that one that fails takes nothing else along; callers go on when the commit is done.
    """

    def __init__(self, path: Path, place: str, synchronous: str) -> None:
        self._path, self._place, self._synchronous = path, place, synchronous
        self._waiting: deque[_Request] = deque()
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        """Held by the thread that uses the connection; ``_owner`` is its number."""
        self._owner: int | None = None
        self._connection: sqlite3.Connection | None = None
        self._turnstile = Turnstile(path)
        self._thread: threading.Thread | None = None
        self._closed = False
        self._one_by_one = 0

    def run(self, work: Work[T]) -> T:
        """Run ``work`` in a transaction and give what it returned, once that is committed. What it raises is raised
        here, its changes undone. It may be run again, if the transaction that it stood in was lost."""
        if self._owner == threading.get_ident():
            raise RuntimeError("a write inside a write would wait for itself")
        request = _Request(work)
        if not self._at_once(request):
            self._enqueue(request)
            self._wait_for(request)
        if request.error is not None:
            error, request.error = request.error, None
            raise error
        result: T = request.result
        return result

    def close(self) -> None:
        """End after what was asked for before. Closing twice does nothing."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout=_CLOSE_SECONDS)
        if self._writing.acquire(timeout=_CLOSE_SECONDS):
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            self._turnstile.close()
            self._writing.release()

    def _at_once(self, request: _Request) -> bool:
        """Do a request in this thread, if nothing else is being written here or by another process."""
        if self._waiting or not self._writing.acquire(blocking=False):
            return False
        try:
            if self._closed:
                return False
            with self._turnstile.turn(wait=False) as had:
                if had:
                    self._transaction(iter((request,)))
                return had
        finally:
            self._writing.release()

    def _enqueue(self, request: _Request) -> None:
        with self._changed:
            if self._closed:
                raise StoreClosed(f"{self._place} is closed")
            self._waiting.append(request)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="flo-sqlite-writer", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _wait_for(self, request: _Request) -> None:
        """Wait for the end. A request whose turn does not come, or whose caller is interrupted, is withdrawn, unless
        it is being worked on."""
        try:
            if request.ended.wait(_PATIENCE_SECONDS) or not self._withdraw(request):
                request.ended.wait()
                return
        except BaseException:
            self._withdraw(request)
            raise
        raise locked(self._place)

    def _withdraw(self, request: _Request) -> bool:
        with self._changed:
            if request.state is not _State.QUEUED:
                return False
            self._waiting.remove(request)
            return True

    def _serve(self) -> None:
        while self._wait_for_work():
            with self._writing, self._turnstile.turn():
                self._transaction(self._taken())

    def _wait_for_work(self) -> bool:
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            return bool(self._waiting)

    def _taken(self) -> Iterator[_Request]:
        """What waits, as much of it as one transaction takes in."""
        started, alone = time.monotonic(), self._one_by_one > 0
        self._one_by_one -= alone
        for _ in range(1 if alone else _BATCH):
            with self._changed:
                if not self._waiting:
                    return
                request = self._waiting.popleft()
                request.state = _State.TAKEN
            yield request
            if time.monotonic() - started > _BATCH_SECONDS:
                return

    def _transaction(self, requests: Iterator[_Request]) -> None:
        """Do requests in one transaction, and tell their callers."""
        self._owner = threading.get_ident()
        done: list[_Request] = []
        try:
            for request in requests:
                if not done and not self._begins_for(request):
                    return
                if self._apply(request, beside=bool(done)):
                    done.append(request)
                elif done and not self._in_transaction:  # SQLite undid everything, not only what failed
                    self._put_back(done)
                    return
            if done:
                self._commit(done)
        finally:
            self._owner = None

    def _begins_for(self, request: _Request) -> bool:
        """Begin a transaction; where that fails, tell the one that it was for."""
        try:
            if self._connection is None:
                self._connection = open_writer(self._path, self._synchronous)
            if self._connection.in_transaction:  # its thread was interrupted
                self._connection.execute("ROLLBACK")
            self._connection.execute("BEGIN IMMEDIATE")
        except BaseException as error:
            request.end(store_error(error, self._place) if isinstance(error, sqlite3.Error) else error)
            return False
        return True

    @property
    def _in_transaction(self) -> bool:
        return self._connection is not None and self._connection.in_transaction

    def _apply(self, request: _Request, *, beside: bool) -> bool:
        """Do one request, ``beside`` others that are done. One that fails is told at once, for nothing of it will be
        committed."""
        connection = self._connection
        assert connection is not None
        try:
            if beside:
                connection.execute("SAVEPOINT request")
            request.result = request.work(connection)
            if not connection.in_transaction:  # and the work has swallowed what it was told
                raise sqlite3.OperationalError("the transaction was undone")
            if beside:
                connection.execute("RELEASE request")
        except BaseException as error:
            self._undo(*(("ROLLBACK TO request", "RELEASE request") if beside else ("ROLLBACK",)))
            request.end(store_error(error, self._place) if isinstance(error, sqlite3.Error) else error)
            return False
        return True

    def _commit(self, done: list[_Request]) -> None:
        assert self._connection is not None
        failed: sqlite3.Error | None = None
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            failed = error
            self._undo("ROLLBACK")
        for request in done:
            request.end(None if failed is None else store_error(failed, self._place))

    def _undo(self, *statements: str) -> None:
        """Undo what is under way, unless SQLite did so itself."""
        assert self._connection is not None
        with suppress(sqlite3.Error):
            for statement in statements:
                if self._connection.in_transaction:
                    self._connection.execute(statement)

    def _put_back(self, lost: list[_Request]) -> None:
        """Let requests whose transaction was lost come first, and each alone."""
        with self._changed:
            for request in reversed(lost):
                request.state = _State.QUEUED
                self._waiting.appendleft(request)
            self._one_by_one += len(lost)
