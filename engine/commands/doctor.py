"""``flo doctor`` and ``flo migrate``: the installation, and the store's schema."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from importlib.metadata import version
from typing import Final

import click

from flo.engine import app
from flo.engine.commands.options import json_option, steps_option, store_option
from flo.engine.commands.output import error, one_line, print_json, print_table, warn, write
from flo.engine.commands.queues import print_queues, worded_age
from flo.engine.errors import InputInvalid, StoreError
from flo.engine.frozen import frozen
from flo.engine.jobs import QueueInfo
from flo.engine.opening import DEFAULT_URL, open_environments, open_keyring
from flo.engine.stores.filters import parse_where
from flo.engine.stores.store import Store
from flo.engine.values import Json, JsonObject, dump

STALE_AFTER: Final = "5m"
"""A row in flight whose claim is older than this was probably left behind: live claims are renewed each minute."""

STALLED_AFTER: Final = timedelta(minutes=1)
"""A queue of which something has been due for so long, and nothing runs, is probably served by nobody."""

LONG_TRANSACTION_SECONDS: Final = 60.0
"""PostgreSQL cannot clean up what ended after a transaction began: one this old makes claims slower and slower."""

LARGE_LOG_BYTES: Final = 64 * 1024 * 1024
"""SQLite's log is this large only where something keeps it from being written back."""

_STALE = (
    {"field": "status", "operator": "equals", "value": "in_flight"},
    {"field": "claimedAt", "operator": "olderThan", "value": STALE_AFTER},
)


@frozen
class _Examined:
    """What is to be said of a store that can be reached. One whose schema is not up to date has no queues, one without
    a schema no tables. ``exposed`` says which secrets others on the machine may read."""

    vitals: JsonObject
    tables: Sequence[JsonObject]
    queues: Sequence[QueueInfo]
    now: datetime
    exposed: Sequence[str] = ()

    def as_json(self) -> JsonObject:
        return {
            "reachable": True,
            "vitals": self.vitals,
            "tables": self.tables,
            "queues": [info.as_json() for info in self.queues],
            "warnings": list(_warnings(self)),
        }


@click.command(short_help="Look at the installation and the store.")
@store_option
@steps_option
@json_option
def doctor(store: str | None, steps: tuple[str, ...], as_json: bool) -> int:
    """Look at the installation and the store: versions, whether the store can be reached, its schema, its tables and
    queues. Migrates nothing. Ends with 2 where the store cannot be reached.

    Warns of what an operator should look after: rows in flight and executions that were left behind, dead letters,
    queues that nobody serves; on PostgreSQL a transaction that keeps vacuum from its work, and who holds it; on SQLite
    a log that has grown large; files with secrets that others on the machine may read. With --json the warnings stand
    under "warnings".
    """
    found: dict[str, Json] = {
        "flo": version("flo-engine"),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
    examined: _Examined | None = None
    unreachable: StoreError | None = None
    with app.open("memory:", steps=steps) as engine:
        found["stepTypes"] = len(engine.registry)
        found["brokenStepModules"] = [f"{plugin.place}: {plugin.message}" for plugin in engine.registry.broken]
    try:
        with app.open(store, migrate=False) as engine:
            found["store"] = engine.store.url
            examined = replace(_examine(engine.store), exposed=_exposed(store, engine.store))
    except StoreError as failed:
        unreachable = failed
    if as_json:
        gone: JsonObject = {"reachable": False, "error": str(unreachable)}
        print_json({**found, **(gone if examined is None else examined.as_json())})
    else:
        _tell(found, examined)
    if unreachable is not None:
        error(str(unreachable))
        return unreachable.exit_code
    return 0


@click.command(short_help="Bring the store's schema up to date.")
@store_option
@json_option
def migrate(store: str | None, as_json: bool) -> None:
    """Bring the store's schema up to date, and print the versions before and afterwards. Every command that opens the
    store does the same; this one does nothing else."""
    with app.open(store, migrate=False) as engine:
        before = engine.store.schema_version()
        engine.store.migrate()
        after = engine.store.schema_version()
    if as_json:
        print_json({"from": before, "to": after})
    else:
        write(f"{before} -> {after}\n")


def _examine(store: Store) -> _Examined:
    vitals, schema = store.vitals(), store.schema_version()
    tables: list[JsonObject] = []
    if schema:
        stale = parse_where(_STALE)
        tables = [
            {"name": table.name, "rows": table.rows, "staleClaims": store.data.count(table.name, stale)}
            for table in store.data.tables()
        ]
    queues = store.queue.queues() if schema and vitals.get("knownSchemaVersion", schema) == schema else ()
    return _Examined(vitals, tables, queues, store.data.now())


def _exposed(url: str | None, store: Store) -> Sequence[str]:
    """Which files with secrets others on the machine may read."""
    keyring = open_keyring(url or os.environ.get("FLO_STORE") or DEFAULT_URL, os.environ)
    environments = open_environments(store, keyring, os.environ)
    try:
        return [said for said in (*environments.warnings(), keyring.warning()) if said is not None]
    except InputInvalid as wrong:  # a settings file that cannot be read
        return [str(wrong)]


def _tell(found: JsonObject, examined: _Examined | None) -> None:
    vitals = {"reachable": False} if examined is None else {"reachable": True, **examined.vitals}
    for name, value in {**found, **vitals}.items():
        write(f"{name:<24} {one_line(value if isinstance(value, str) else dump(value))}\n")
    if examined is None:
        return
    if examined.tables:
        write("\n")
        print_table(
            ("TABLE", "ROWS", "STALE CLAIMS"),
            [(str(held["name"]), str(held["rows"]), str(held["staleClaims"])) for held in examined.tables],
        )
    if examined.queues:
        write("\n")
        print_queues(examined.queues, examined.now)
    for warning in _warnings(examined):
        warn(warning)


def _warnings(examined: _Examined) -> Iterator[str]:
    yield from _of_executions(examined)
    yield from _of_database(examined.vitals)
    yield from examined.exposed


def _of_executions(examined: _Examined) -> Iterator[str]:
    """What is left behind, or waits for somebody."""
    if any(held["staleClaims"] for held in examined.tables):
        yield f"rows in flight have not been renewed for {STALE_AFTER}: the recipe 'stale-claim-recovery' finishes them"
    if expired := examined.vitals.get("expiredLeases"):
        yield (
            f"executions whose lease ran out, so that their process is probably gone: {expired}; a worker takes over"
            " those of its queues, 'flo executions list' ends those of 'flo run'"
        )
    for info in examined.queues:
        age = None if info.oldest_due is None else examined.now - info.oldest_due
        if info.due and not info.running and not info.paused and age is not None and age > STALLED_AFTER:
            depth = f"{info.due:,} due, the oldest for {worded_age(info.oldest_due, examined.now)}"
            yield f"queue {info.name!r} has {depth}, and nothing runs: does a worker serve it?"
        if info.paused and info.due:
            yield f"queue {info.name!r} is paused and has {info.due:,} due: 'flo queues resume' gives them again"
    if dead := sum(info.dead for info in examined.queues):
        yield f"dead letters: {dead:,}; 'flo dead list' tells why, 'flo dead replay' runs them anew"


def _of_database(vitals: JsonObject) -> Iterator[str]:
    """What makes the database slower or larger than it needs to be."""
    oldest, autovacuum, log_bytes = (vitals.get(name) for name in ("oldestTransaction", "autovacuum", "logBytes"))
    if isinstance(oldest, dict) and oldest["seconds"] > LONG_TRANSACTION_SECONDS:
        yield (
            f"a transaction has been open for {oldest['seconds']:.0f} s and keeps vacuum from its work: process"
            f" {oldest['pid']} of {oldest['application'] or 'an unnamed program'}, user {oldest['user']},"
            f" {oldest['state']}: {oldest['query']}"
        )
    if isinstance(autovacuum, dict) and not autovacuum["enabled"]:
        yield "autovacuum is off: tables of a queue grow without end; set autovacuum and track_counts to on"
    if isinstance(log_bytes, int) and log_bytes > LARGE_LOG_BYTES:
        yield (
            f"the log of the store has {log_bytes // 1024**2:,} MiB: a process reads in it for long, or was stopped in"
            " the middle; it shrinks once that has ended"
        )
