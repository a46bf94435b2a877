"""The ``StepCall`` of a body in a process of its own: what it asks for is asked of the engine, and waited for."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from flo.engine.clock import SystemClock
from flo.engine.errors import StepFailed
from flo.engine.isolation.frames import Answer, Ask, Work, packed, said, unpacked
from flo.engine.jobs import Enqueued, JobOptions
from flo.engine.step import Loop, Rule, StepCall
from flo.engine.values import Json, JsonObject

if TYPE_CHECKING:
    from flo.engine.stores.base import Page, Row, Stored, Table, Updated
    from flo.engine.stores.changes import Change
    from flo.engine.stores.filters import Condition
    from flo.engine.stores.ordering import Order


class Asking:
    """Asks the engine, from any thread of the process."""

    def __init__(self, send: Callable[[object], None]) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._waiting: dict[int, SimpleQueue[Answer]] = {}
        self._process = os.getpid()

    def ask(self, target: str, method: str, *arguments: Any, **named: Any) -> Any:
        """What a method of a field of the engine's own ``StepCall`` gives. Raises what it raises."""
        if os.getpid() != self._process:
            raise RuntimeError(f"{target} belongs to the process of the step, not to one that it has forked")
        try:
            content = packed((arguments, named))
        except Exception as error:
            message = f"{target}.{method}: what it is given cannot go to the engine: {said(error)}"
            raise StepFailed(message, code="invalid_value", retryable=False) from error
        number = next(self._numbers)
        answers = self._waiting[number] = SimpleQueue()
        try:
            self._send(Ask(number, target, method, content))
            answer = answers.get()
        finally:
            del self._waiting[number]
        given = unpacked(answer.payload)
        if answer.raised:
            raise given
        return given

    def answered(self, answer: Answer) -> None:
        """Hand an answer to the thread that waits for it."""
        if (answers := self._waiting.get(answer.number)) is not None:
            answers.put(answer)


def step_call(work: Work, cancelled: threading.Event, ask: Asking) -> StepCall:
    """The ``StepCall`` for one body."""

    def log(level: str, message: str, data: Json = None) -> None:
        ask.ask("log", "__call__", level, message, data)

    return StepCall(
        **work.fields,
        store=IsolatedStore(ask),
        clock=SystemClock() if work.system_clock else IsolatedClock(ask, cancelled),
        log=log,
        cancelled=cancelled,
        deadline=work.deadline,
        secrets=IsolatedSecrets(ask),
        engine=IsolatedEngine(ask),
    )


class IsolatedClock:
    """A clock of the engine's that is not the machine's."""

    def __init__(self, ask: Asking, cancelled: threading.Event) -> None:
        self._ask, self._cancelled = ask.ask, cancelled

    def now(self) -> datetime:
        now: datetime = self._ask("clock", "now")
        return now

    def monotonic(self) -> float:
        monotonic: float = self._ask("clock", "monotonic")
        return monotonic

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait as the engine's clock does. Of the events only ``cancelled`` is seen to be set meanwhile."""
        if event.is_set():
            return True
        told: bool = self._ask("clock", "wait", event is self._cancelled, seconds)
        return told or event.is_set()


class IsolatedSecrets:
    """The ``Secrets`` of the call."""

    def __init__(self, ask: Asking) -> None:
        self._ask = ask.ask

    def __getitem__(self, name: str) -> Json:
        value: Json = self._ask("secrets", "__getitem__", name)
        return value

    def get(self, name: str, default: Json = None) -> Json:
        value: Json = self._ask("secrets", "get", name, default)
        return value

    def connection(self, name: str) -> JsonObject:
        connection: JsonObject = self._ask("secrets", "connection", name)
        return connection


class IsolatedEngine:
    """The ``Engine`` of the call, but for what belongs to the parts of a document that are run or evaluated in it."""

    def __init__(self, ask: Asking) -> None:
        self._ask = ask.ask

    def set_variables(self, pairs: JsonObject) -> None:
        self._ask("engine", "set_variables", pairs)

    def wait(
        self,
        kind: Literal["time", "signal", "approval", "execution"],
        *,
        name: str = "",
        until: datetime | None = None,
        details: JsonObject | None = None,
    ) -> JsonObject | None:
        answer: JsonObject | None = self._ask("engine", "wait", kind, name=name, until=until, details=details)
        return answer

    def run_workflow(self, target: str | JsonObject, initial: JsonObject) -> JsonObject:
        returned: JsonObject = self._ask("engine", "run_workflow", target, initial)
        return returned

    def enqueue(self, target: str, initial: JsonObject, options: JobOptions) -> Enqueued:
        enqueued: Enqueued = self._ask("engine", "enqueue", target, initial, options)
        return enqueued

    def keep_claimed(self, table: str, held: Mapping[str, int], every_seconds: float) -> None:
        self._ask("engine", "keep_claimed", table, held, every_seconds)

    def has_branch(self, branch: str) -> bool:
        _refuse("has_branch")

    def run_children(self, branch: str, *, shielded: bool = False) -> JsonObject:
        _refuse("run_children")

    def run_parallel(self, branch: str, concurrency: int | None) -> JsonObject:
        _refuse("run_parallel")

    def loop(
        self,
        branch: str,
        items: Iterable[Json],
        *,
        concurrency: int = 1,
        tolerate: bool = False,
        before: Callable[[int], bool] | None = None,
    ) -> Loop:
        _refuse("loop")

    def holds(self, condition: str, names: Mapping[str, Json] | None = None) -> bool:
        _refuse("holds")

    def has_rule(self, field: str) -> bool:
        _refuse("has_rule")

    def rule(self, field: str, over: str = "items") -> Rule:
        _refuse("rule")


def _refuse(method: str) -> NoReturn:
    message = f"engine.{method} is not for an isolated step type: it has no branches, conditions or rules"
    raise StepFailed(message, code="not_supported", retryable=False)


class IsolatedStore:
    """The ``DataStore`` of the call."""

    def __init__(self, ask: Asking) -> None:
        self._asking = ask

    def _ask(self, method: str, *arguments: Any, **named: Any) -> Any:
        return self._asking.ask("store", method, *arguments, **named)

    def now(self) -> datetime:
        now: datetime = self._ask("now")
        return now

    def set(
        self, table: str, key: str, value: Json, *, ttl: timedelta | None = None, if_absent: bool = False
    ) -> Stored:
        stored: Stored = self._ask("set", table, key, value, ttl=ttl, if_absent=if_absent)
        return stored

    def set_many(self, table: str, entries: Sequence[tuple[str, Json]], *, if_absent: bool = False) -> tuple[int, int]:
        counts: tuple[int, int] = self._ask("set_many", table, entries, if_absent=if_absent)
        return counts

    def get(self, table: str, key: str) -> Row | None:
        row: Row | None = self._ask("get", table, key)
        return row

    def query(self, table: str, where: Condition, order: Order = (), *, limit: int, cursor: str | None = None) -> Page:
        page: Page = self._ask("query", table, where, order, limit=limit, cursor=cursor)
        return page

    def count(self, table: str, where: Condition) -> int:
        count: int = self._ask("count", table, where)
        return count

    def delete(self, table: str, where: Condition) -> int:
        deleted: int = self._ask("delete", table, where)
        return deleted

    def claim(
        self, table: str, where: Condition, order: Order, *, limit: int, holder: str, changes: Sequence[Change]
    ) -> Sequence[Row]:
        rows: Sequence[Row] = self._ask("claim", table, where, order, limit=limit, holder=holder, changes=changes)
        return rows

    def update(
        self, table: str, key: str, where: Condition, changes: Sequence[Change], *, upsert: bool = False
    ) -> Updated:
        updated: Updated = self._ask("update", table, key, where, changes, upsert=upsert)
        return updated

    def renew(self, table: str, held: Mapping[str, int], *, holder: str) -> Sequence[str]:
        renewed: Sequence[str] = self._ask("renew", table, held, holder=holder)
        return renewed

    def remove_expired(self, limit: int = 1000) -> int:
        removed: int = self._ask("remove_expired", limit)
        return removed

    def tables(self) -> Sequence[Table]:
        tables: Sequence[Table] = self._ask("tables")
        return tables
