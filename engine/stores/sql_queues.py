"""How queues stand, and what people set about them, in SQL that both dialects accept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from flo.engine.jobs import Limits, QueueInfo
from flo.engine.stores.database import Database, Execute, Values
from flo.engine.stores.sql_lists import listed, one_of
from flo.engine.stores.sql_plans import read_by_index
from flo.engine.stores.sql_rows import NO_QUEUE

CHANNEL: Final = "flo_work"
"""What PostgreSQL's workers listen to; a message is the name of a queue."""

_RATE_OVER: Final = timedelta(seconds=60)

# Numbers of what is not finished come from partial indexes, in which nothing finished lies.
_COUNTS: Final = """
SELECT 'due', queue, count(*), min(due_at) FROM executions
    WHERE due_at IS NOT NULL AND due_at <= :now AND queue <> '' GROUP BY queue
UNION ALL
SELECT 'ahead', queue, count(*), NULL FROM executions
    WHERE due_at IS NOT NULL AND due_at > :now AND queue <> '' GROUP BY queue
UNION ALL
SELECT 'running', queue, count(*), NULL FROM executions
    WHERE state = 'running' AND due_at > :now AND queue <> '' GROUP BY queue
UNION ALL
SELECT CASE WHEN due_at > :now THEN 'until' WHEN due_at IS NULL THEN 'open' ELSE 'answered' END, queue, count(*), NULL
    FROM executions WHERE state = 'suspended' AND queue <> '' GROUP BY 1, queue
UNION ALL
SELECT 'dead', queue, count(*), NULL FROM executions
    WHERE dead_reason IS NOT NULL AND replayed_as IS NULL AND queue <> '' GROUP BY queue
UNION ALL
SELECT 'finished', queue, count(*), NULL FROM executions
    WHERE finished_at IS NOT NULL AND finished_at > :since AND queue <> '' GROUP BY queue
UNION ALL
SELECT 'seen', queue, count(*), NULL FROM (
    SELECT queue FROM executions WHERE finished_at IS NOT NULL ORDER BY finished_at DESC, id DESC LIMIT 1000
) AS last WHERE queue <> '' GROUP BY queue
"""
"""``seen``: a queue in which everything has ended is still one, as long as it is among what ended last."""

_SETTINGS: Final = "SELECT name, paused, max_running, max_running_per_key, starts_per_key, per_key_seconds FROM queues"

_PAUSE: Final = """
INSERT INTO queues (name, paused) VALUES (:queue, true) ON CONFLICT (name) DO UPDATE SET paused = true
"""
_UNPAUSE: Final = "UPDATE queues SET paused = false WHERE name = :queue"

_LIMIT: Final = """
INSERT INTO queues (name, max_running, max_running_per_key, starts_per_key, per_key_seconds)
VALUES (:queue, :running, :running_per_key, :starts_per_key, :per_key_seconds)
ON CONFLICT (name) DO UPDATE SET
    max_running = excluded.max_running, max_running_per_key = excluded.max_running_per_key,
    starts_per_key = excluded.starts_per_key, per_key_seconds = excluded.per_key_seconds
"""

_BUSY: Final = """
SELECT EXISTS (
    SELECT 1 FROM executions e WHERE e.queue {queues} AND e.due_at IS NOT NULL AND e.due_at <= :now AND {given}
) OR EXISTS (
    SELECT 1 FROM executions e WHERE e.queue {queues} AND e.state = 'running' AND {given}
)
"""
_GIVEN: Final = "NOT EXISTS (SELECT 1 FROM queues q WHERE q.name = e.queue AND q.paused)"


def notify(execute: Execute, dialect: str, queues: Iterable[str]) -> None:
    """Tell workers, once the transaction is committed, that something may be had in ``queues``. Workers on SQLite see
    that the file changed."""
    if dialect != "postgresql":
        return
    for queue in sorted(set(queues) - {NO_QUEUE}):
        execute.later(f"SELECT pg_notify('{CHANNEL}', :queue)", {"queue": queue})


class SqlQueues:
    """The part of the ``QueueStore`` of both SQL adapters that is about whole queues."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def queues(self) -> Sequence[QueueInfo]:
        since = self._database.now() - _RATE_OVER
        counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
        oldest: dict[str, datetime] = {}
        for kind, queue, count, due in read_by_index(self._database, _COUNTS, {"since": since}):
            counts[queue][kind] = count
            if kind == "due":
                oldest[queue] = self._database.instant(due)
        settings = {name: (bool(paused), Limits(*bounds)) for name, paused, *bounds in self._database.read(_SETTINGS)}
        told = {name for name, (paused, limits) in settings.items() if paused or limits != Limits()}
        return [
            _info(name, *settings.get(name, (False, Limits())), counts[name], oldest.get(name))
            for name in sorted(told.union(counts))
        ]

    def pause(self, queue: str) -> None:
        self._change(_PAUSE, {"queue": queue})

    def unpause(self, queue: str) -> None:
        self._change(_UNPAUSE, {"queue": queue})

    def limit(self, queue: str, limits: Limits) -> None:
        bounds: dict[str, Any] = {
            "running": limits.running,
            "running_per_key": limits.running_per_key,
            "starts_per_key": limits.starts_per_key,
            "per_key_seconds": limits.per_key_seconds,
        }
        self._change(_LIMIT, {"queue": queue, **bounds})

    def idle(self, queues: Sequence[str]) -> bool:
        dialect = self._database.dialect
        sql, values = _BUSY.format(queues=one_of(dialect, "queues"), given=_GIVEN), {"queues": listed(dialect, queues)}
        # twice: on SQLite now is a moment older than what is read, and what was given back in between is due after it
        return not any(read_by_index(self._database, sql, values)[0][0] for _ in range(2))

    def _change(self, sql: str, values: Values) -> None:
        def work(execute: Execute) -> None:
            execute(sql, values)
            notify(execute, self._database.dialect, [str(values["queue"])])

        self._database.write(work)


def _info(name: str, paused: bool, limits: Limits, counts: Mapping[str, int], oldest_due: datetime | None) -> QueueInfo:
    def number(kind: str) -> int:
        return counts.get(kind, 0)

    return QueueInfo(
        name=name,
        paused=paused,
        limits=limits,
        due=number("due"),
        later=number("ahead") - number("running") - number("until"),
        running=number("running"),
        suspended=number("until") + number("open"),
        dead=number("dead"),
        finished_last_minute=number("finished"),
        oldest_due=oldest_due,
    )
