"""``flo doctor`` and ``flo migrate``: the installation, and the store's schema."""

from __future__ import annotations

import platform
from importlib.metadata import version

import click

from flo.engine import app
from flo.engine.commands.options import json_option, steps_option, store_option
from flo.engine.commands.output import error, print_json, print_table, warn, write
from flo.engine.errors import StoreError
from flo.engine.stores.base import Store
from flo.engine.stores.filters import parse_where
from flo.engine.values import Json, JsonObject, dump

STALE_AFTER = "5m"
"""A row in flight whose claim is older than this was probably left behind: live claims are renewed each minute."""

_STALE = (
    {"field": "status", "operator": "equals", "value": "in_flight"},
    {"field": "claimedAt", "operator": "olderThan", "value": STALE_AFTER},
)


@click.command(short_help="Look at the installation and the store.")
@store_option
@steps_option
@json_option
def doctor(store: str | None, steps: tuple[str, ...], as_json: bool) -> int:
    """Look at the installation and the store: versions, whether the store can be reached, its schema, its tables, and
    rows in flight that were probably left behind. Migrates nothing. Ends with 2 where the store cannot be reached."""
    found: dict[str, Json] = {
        "flo": version("flo-engine"),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
    unreachable: StoreError | None = None
    with app.open("memory:", steps=steps) as engine:
        found["stepTypes"] = len(engine.registry)
        found["brokenStepModules"] = [f"{plugin.place}: {plugin.message}" for plugin in engine.registry.broken]
    try:
        with app.open(store, migrate=False) as engine:
            found["store"] = engine.store.url
            found.update(_examine(engine.store))
    except StoreError as failed:
        unreachable = failed
        found.update({"reachable": False, "error": str(failed)})
    if as_json:
        print_json(found)
    else:
        _tell(found)
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


def _examine(store: Store) -> JsonObject:
    """What is to be said of a store that can be reached. One without a schema has no tables."""
    vitals = store.vitals()
    tables: list[Json] = []
    if store.schema_version():
        stale = parse_where(_STALE)
        tables = [
            {"name": table.name, "rows": table.rows, "staleClaims": store.data.count(table.name, stale)}
            for table in store.data.tables()
        ]
    return {"reachable": True, "vitals": vitals, "tables": tables}


def _tell(found: JsonObject) -> None:
    vitals, tables = found.get("vitals"), found.get("tables")
    shown = {key: value for key, value in found.items() if key not in ("vitals", "tables", "error")}
    if isinstance(vitals, dict):
        shown.update(vitals)
    for name, value in shown.items():
        write(f"{name:<20} {value if isinstance(value, str) else dump(value)}\n")
    if not isinstance(tables, list) or not tables:
        return
    write("\n")
    print_table(
        ("TABLE", "ROWS", "STALE CLAIMS"),
        [(held["name"], str(held["rows"]), str(held["staleClaims"])) for held in tables],
    )
    if any(held["staleClaims"] for held in tables):
        warn(f"rows in flight have not been renewed for {STALE_AFTER}: the recipe 'stale-claim-recovery' finishes them")
