"""The encrypted table of environments and connections: what it keeps, who can open it, and what it refuses."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from flo.engine.environments.keyring import Keyring
from flo.engine.environments.loading import Environments
from flo.engine.environments.table import keep, rotate
from flo.engine.errors import FloError, InputInvalid
from flo.engine.opening import open_environments, open_keyring, open_store
from flo.engine.sealing import Keys, SealBroken
from flo.engine.stores.store import Store
from flo.engine.values import Json

from .environment_world import NEW, OLD, World, filled, marks, on


def test_a_value_comes_back_from_every_store(store: Store, store_url: str, keyring: Keyring) -> None:
    environments = open_environments(store, keyring, {})
    keep(store.settings, keyring, "environment", "prod", "KEY", {"secret": "hunter2"})
    keep(store.settings, keyring, "environment", "prod", "BIG", 2**200)
    keep(store.settings, keyring, "connection", "stripe", "", {"baseUrl": "u", "token": "<< $env.KEY >>"})
    loaded = environments.load("prod")
    assert loaded.env == {"BIG": 2**200, "KEY": "hunter2"}
    assert loaded.connections["stripe"] == {"baseUrl": "u", "token": "hunter2"}
    assert marks(loaded.connections["stripe"]) == {"baseUrl": "u", "token": "secret: ***"}
    if store_url != "memory:":
        with closing_store(store_url) as again:
            assert open_environments(again, keyring, {}).load("prod").env == loaded.env


def closing_store(url: str) -> Any:
    return closing(open_store(url))


def test_a_store_of_many_machines_keeps_no_key(postgres_url: str) -> None:
    with closing_store(postgres_url) as store:
        with pytest.raises(InputInvalid, match="FLO_MASTER_KEY: it is not set"):
            keep(store.settings, open_keyring(postgres_url, {}), "environment", "prod", "KEY", "x")
        assert store.settings.find("environment") == []


def test_reading_makes_no_key_file_and_the_first_value_does(sqlite_url: str) -> None:
    file = Path(f"{sqlite_url.removeprefix('sqlite:')}-key")
    with closing_store(sqlite_url) as store:
        store.migrate()
        ring = open_keyring(sqlite_url, {})
        environments = open_environments(store, ring, {})
        environments.load()
        environments.describe()
        environments.describe_connections()
        store.settings.put("environment", "default", "KEY", "sealed elsewhere")
        with pytest.raises(SealBroken):
            environments.load()
        with pytest.raises(SealBroken, match="there is no key file"):
            keep(store.settings, ring, "environment", "default", "OTHER", "x")
        assert not file.exists()
        store.settings.remove("environment", "default")
        keep(store.settings, ring, "environment", "default", "KEY", "x")
        assert file.stat().st_mode & 0o777 == 0o600
        assert environments.load().env == {"KEY": "x"}


def test_no_secret_is_readable_in_the_files_of_sqlite(sqlite_url: str, tmp_path: Path) -> None:
    with closing_store(sqlite_url) as store:
        store.migrate()
        ring = open_keyring(sqlite_url, {})
        keep(store.settings, ring, "environment", "prod", "KEY", {"secret": "hunter2-plain"})
        keep(store.settings, ring, "connection", "stripe", "", {"token": "hunter2-plain"})
        files = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}
    assert b"gAAAA" in files["flo.sqlite-wal"], "what is looked at is where the rows are"
    with closing(sqlite3.connect(tmp_path / "flo.sqlite")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    files["afterwards"] = (tmp_path / "flo.sqlite").read_bytes()
    assert b"gAAAA" in files["afterwards"]
    assert [name for name, content in files.items() if b"hunter2" in content] == []


def test_no_secret_is_readable_in_the_table_of_postgresql(postgres_url: str) -> None:
    with closing_store(postgres_url) as store:
        filled(store.settings, OLD)
        with psycopg.connect(postgres_url) as connection:
            rows = [text for (text,) in connection.execute("SELECT s::text FROM flo.settings s")]
    assert len(rows) == 3
    assert all("gAAAA" in row and "hunter2" not in row for row in rows)


def test_another_key_opens_nothing_and_the_error_names_the_place(store: Store) -> None:
    filled(store.settings, OLD)
    with pytest.raises(SealBroken, match=r"^environment prod A cannot be opened: ") as raised:
        on(store.settings, NEW).load("prod")
    assert "hunter2" not in str(raised.value)
    with pytest.raises(SealBroken, match="FLO_MASTER_KEY is not set here"):
        Environments(store.settings, lambda: None, None, {}).load("prod")
    overridden = {"FLO_ENV_A": "x", "FLO_ENV_B": "y"}
    assert Environments(store.settings, lambda: None, None, overridden).load("prod").env == {"A": "x", "B": "y"}


def test_rows_that_changed_places_or_were_changed_do_not_open(store: Store) -> None:
    table = store.settings
    filled(table, OLD)
    first, second = table.find("environment", "prod")
    table.put("environment", "prod", "A", second.sealed)
    with pytest.raises(SealBroken, match=r"^environment prod A cannot be opened: ") as raised:
        on(table, OLD).load("prod")
    assert "hunter2" not in str(raised.value)
    table.put("environment", "dev", "A", first.sealed)
    with pytest.raises(SealBroken, match=r"^environment dev A cannot be opened: "):
        on(table, OLD).load("dev")
    table.put("environment", "dev", "A", first.sealed[:-9] + "A" * 9)
    with pytest.raises(SealBroken, match=r"^environment dev A cannot be opened: "):
        on(table, OLD).load("dev")
    with pytest.raises(SealBroken):
        rotate(table, Keys([OLD], "test"))


@pytest.mark.parametrize(
    ("owner", "name", "raw", "said"),
    [
        ("a b", "K", "x", 'environment: "a b" is no name'),
        ("a", "K.x", "x", 'value: "K.x" is no name'),
        ("a", "", "x", 'value: "" is no name'),
        ("a", "K" * 201, "x", "is no name"),
        ("a", "K", {"secret": 5}, "environment a K: a number cannot be kept secret"),
        ("a", "K", "x\0", "U\\+0000"),
        ("a", "K", "x" * 1024 * 1024, "environment a K: it has 1,048,578 characters as JSON, the limit is 1,048,576"),
        ("a", "K", "<< initial.x >>", "there is no 'initial' here"),
        ("a", "K", "<< $env. >>", "environment a K: "),
    ],
)
def test_what_cannot_be_kept_is_refused(owner: str, name: str, raw: Json, said: str, world: World) -> None:
    with pytest.raises(FloError, match=said):
        world.keep(owner, name, raw)
    assert world.table.find("environment") == []
