"""``flo data``: the rows of the store, from the shell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import click

from flo.engine import app
from flo.engine.commands.group import CommandGroup
from flo.engine.commands.options import duration, json_anyway_option, json_option, store_option
from flo.engine.commands.output import note, print_json, print_json_list, print_table, write
from flo.engine.commands.sources import json_argument, read_path, read_stdin
from flo.engine.errors import FloError, NotFound, did_you_mean
from flo.engine.instants import write_instant
from flo.engine.stores.base import DataStore, Row
from flo.engine.stores.filters import EVERY, Condition, key_is, parse_where
from flo.engine.stores.ordering import Order, parse_order
from flo.engine.values import dump, plain, shown

PAGE = 100
SHOWN = 100
"""A table on the terminal has so many rows, unless another limit is asked for."""

Decorated = Callable[..., object]


@click.group(cls=CommandGroup)
def data() -> None:
    """Read and write the rows of the store."""


def _filter_options(command: Decorated) -> Decorated:
    where = click.option("--where", metavar="JSON|@FILE|-", help="A condition {field, operator, value}, or a list.")
    mode = click.option(
        "--filter-mode", type=click.Choice(["all", "any"]), default="all", help="Must all hold, or any?"
    )
    return where(mode(command))


@data.command(short_help="List the tables and how many rows they have.")
@store_option
@json_option
def tables(store: str | None, as_json: bool) -> None:
    """List the tables that have rows, and how many."""
    with app.open(store) as engine:
        found = engine.data.tables()
    if as_json:
        print_json_list({"name": table.name, "rows": table.rows} for table in found)
    elif found:
        print_table(("TABLE", "ROWS"), [(table.name, str(table.rows)) for table in found])
    else:
        note("there are no rows")


@data.command("list", short_help="List rows of a table.")
@click.argument("table")
@_filter_options
@click.option("--order-by", metavar="JSON|FIELD", help="A field, {field, direction}, or a list of those.")
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help=f"At most so many; default {SHOWN}, with --json all."
)
@click.option("--cursor", help="Go on where an earlier list with the same order ended.")
@store_option
@json_option
def list_rows(
    table: str,
    where: str | None,
    filter_mode: str,
    order_by: str | None,
    limit: int | None,
    cursor: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """List rows of a table that match, in the order asked for, ties by insertion. With --json an array of rows."""
    condition, order = _condition(where, filter_mode), _order(order_by)
    with app.open(store) as engine:
        reader = _Reader(engine.data, table, condition, order, cursor)
        rows = reader.rows(limit if limit or as_json else SHOWN)
        if as_json:
            print_json_list(row.as_json() for row in rows)
        else:
            cells = [
                (row.key, write_instant(row.updated_at), str(row.claim_count), shown(row.value, 120)) for row in rows
            ]
            if cells:
                print_table(("KEY", "UPDATED", "CLAIMS", "VALUE"), cells)
            else:
                note("no row matches")
        if not reader.count:
            _note_missing_table(engine.data, table)
    if reader.cursor is not None:
        note(f"there are more rows: go on with --cursor {reader.cursor}")


@data.command(short_help="Print one row.")
@click.argument("table")
@click.argument("key")
@store_option
@json_option
def get(table: str, key: str, store: str | None, as_json: bool) -> None:
    """Print the value of one row as JSON; with --json the row: key, value, createdAt, updatedAt, expiresAt,
    claimCount."""
    with app.open(store) as engine:
        row = engine.data.get(table, key)
        if row is None:
            known = [held.name for held in engine.data.tables()]
            raise FloError(f"no row {key!r} in {table!r}") if table in known else NotFound("table", table, known)
    print_json(row.as_json() if as_json else row.value)


@data.command("set", short_help="Write one row.")
@click.argument("table")
@click.argument("key")
@click.argument("value", metavar="JSON|@FILE|-")
@click.option("--ttl", type=duration, metavar="DURATION", help="Let the row expire after so long: seconds, or 90s, 5m.")
@click.option("--if-absent", is_flag=True, help="Leave a row that is there as it is.")
@store_option
@json_option
def set_row(
    table: str,
    key: str,
    value: str,
    ttl: timedelta | None,
    if_absent: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Write one row: its whole value, which is any JSON. With --json the row is printed, and whether it is new."""
    held = plain(json_argument(value, "the value"))
    with app.open(store) as engine:
        stored = engine.data.set(table, key, held, ttl=ttl, if_absent=if_absent)
    if as_json:
        print_json({**stored.row.as_json(), "created": stored.created})
    else:
        note(f"{key!r} is {'new' if stored.created else 'left as it was' if if_absent else 'replaced'}")


@data.command(short_help="Remove rows.")
@click.argument("table")
@click.argument("key", required=False)
@_filter_options
@click.option("--all", "everything", is_flag=True, help="Remove every row of the table.")
@store_option
@json_option
def delete(
    table: str,
    key: str | None,
    where: str | None,
    filter_mode: str,
    everything: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Remove the row of a key, the rows that match --where, or with --all every row of the table."""
    if (key is not None) + (where is not None) + everything != 1:
        raise click.UsageError("give a key, --where or --all, and only one of them")
    condition = key_is(key) if key is not None else EVERY if everything else _condition(where, filter_mode)
    if condition == EVERY and not everything:
        raise FloError("--where is empty and would remove every row; --all says that this is meant")
    with app.open(store) as engine:
        count = engine.data.delete(table, condition)
        if not count:
            _note_missing_table(engine.data, table)
    if as_json:
        print_json({"deleted": count})
    else:
        note(f"{count:,} {'row' if count == 1 else 'rows'} removed")


@data.command("import", short_help="Write rows from a file.")
@click.argument("table")
@click.argument("file", metavar="FILE|-")
@click.option("--if-absent", is_flag=True, help="Leave rows that are there as they are.")
@store_option
@json_option
def import_rows(table: str, file: str, if_absent: bool, store: str | None, as_json: bool) -> None:
    """Write rows from a file: an array of {key, value}, or one such object a line, as 'flo data export' writes them.

    The whole file is checked before the first row is written; then each 1,000 rows are written together. An
    'expiresAt' is kept, and a row that has expired already is left out; other instants and 'claimCount' start anew.
    """
    from flo.engine.commands.transfer import read_entries, write_entries

    entries = read_entries(read_stdin() if file == "-" else read_path(file), "standard input" if file == "-" else file)
    with app.open(store) as engine:
        written = write_entries(engine.data, table, entries, if_absent=if_absent)
    if as_json:
        print_json({"created": written.created, "updated": written.updated, "expired": written.expired})
    else:
        there = "those that were there are left as they were" if if_absent else f"{written.updated:,} are replaced"
        expired = f", {written.expired:,} have expired and are left out" if written.expired else ""
        note(f"{written.created:,} rows are new, {there}{expired}")


@data.command(short_help="Print the rows of a table, one a line.")
@click.argument("table")
@_filter_options
@store_option
@json_anyway_option
def export(table: str, where: str | None, filter_mode: str, store: str | None) -> None:
    """Print the rows of a table as JSON, one a line, in the order of their insertion."""
    condition = _condition(where, filter_mode)
    with app.open(store) as engine:
        reader = _Reader(engine.data, table, condition)
        for row in reader.rows(None):
            write(dump(row.as_json()) + "\n")
        if not reader.count:
            _note_missing_table(engine.data, table)


class _Reader:
    """Reads a table page by page. ``cursor`` is where it stands, None at the end; ``count`` rows were read."""

    def __init__(
        self, store: DataStore, table: str, condition: Condition, order: Order = (), cursor: str | None = None
    ) -> None:
        self._store, self._table, self._condition, self._order = store, table, condition, order
        self.cursor = cursor
        self.count = 0

    def rows(self, limit: int | None) -> Iterator[Row]:
        """Up to ``limit`` rows, None: all."""
        left = limit
        while left is None or left > 0:
            count = PAGE if left is None else min(left, PAGE)
            page = self._store.query(self._table, self._condition, self._order, limit=count, cursor=self.cursor)
            self.cursor = page.next_cursor
            self.count += len(page.rows)
            yield from page.rows
            if self.cursor is None:
                return
            left = None if left is None else left - len(page.rows)


def _condition(where: str | None, mode: str) -> Condition:
    return EVERY if where is None else parse_where(json_argument(where, "--where"), mode, "where")


def _order(order_by: str | None) -> Order:
    if order_by is None:
        return ()
    text = order_by.strip()
    return parse_order(json_argument(text, "--order-by") if text[:1] in ("[", "{", "@") else {"field": text})


def _note_missing_table(store: DataStore, table: str) -> None:
    known = [held.name for held in store.tables()]
    if table not in known:
        note(f"there is no table {table!r}{did_you_mean(table, known)}")
