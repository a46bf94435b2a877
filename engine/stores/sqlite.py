"""The SQLite store: one file, one host, any number of processes."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import cast

from flo.engine.clock import Clock
from flo.engine.stores import migrations
from flo.engine.stores.base import DataStore, ExecutionStore, WorkflowStore
from flo.engine.stores.queueing import QueueStore
from flo.engine.stores.settings import SettingStore
from flo.engine.stores.sql import SqlExecutions
from flo.engine.stores.sql_queue import SqlQueue
from flo.engine.stores.sql_settings import SqlSettings
from flo.engine.stores.sql_triggers import SqlTriggers
from flo.engine.stores.sql_workflows import SqlWorkflows
from flo.engine.stores.sqlite_data import SqliteData
from flo.engine.stores.sqlite_database import Joined, SqliteDatabase, Transaction
from flo.engine.stores.sqlite_files import check_synchronous, create
from flo.engine.stores.sqlite_wakeups import SqliteWakeups
from flo.engine.stores.triggering import TriggerStore
from flo.engine.stores.vitals import read_common_vitals
from flo.engine.values import JsonObject


class SqliteStore:
    """One SQLite file. ``open`` makes it."""

    def __init__(self, database: SqliteDatabase, path: Path, synchronous: str) -> None:
        self.url = database.url
        self._database, self._path, self._synchronous = database, path, synchronous
        self.data: DataStore = SqliteData(database)
        self.workflows: WorkflowStore = SqlWorkflows(database)
        self.executions: ExecutionStore = SqlExecutions(database)
        self.queue: QueueStore = SqlQueue(
            database,
            data=lambda execute: SqliteData(Joined(database, cast(Transaction, execute))),
            wakeups=lambda queues: SqliteWakeups(path),
        )
        self.triggers: TriggerStore = SqlTriggers(database, wakeups=lambda: SqliteWakeups(path))
        self.settings: SettingStore = SqlSettings(database)

    @classmethod
    def open(cls, path: Path, clock: Clock, *, synchronous: str = "FULL") -> SqliteStore:
        """Open the store in the file ``path``, which is made if it is not there, its folder too.

        ``synchronous`` is SQLite's: under ``FULL`` what was acknowledged survives a power cut, under ``NORMAL`` it
        survives the death of processes. Raises ``StoreUnavailable``, and ``InputInvalid`` for another word.
        """
        url = f"sqlite:{path}"
        careful = check_synchronous(synchronous)
        path = Path(os.path.abspath(path))
        create(path, url)
        return cls(SqliteDatabase(path, clock, url=url, synchronous=careful), path, careful)

    def migrate(self) -> int:
        return migrations.migrate(self._database)

    def schema_version(self) -> int:
        return migrations.schema_version(self._database)

    def vitals(self) -> JsonObject:
        read = self._database.read
        page_bytes = read("PRAGMA page_size")[0][0]
        log = Path(f"{self._path}-wal")
        return {
            **read_common_vitals(self._database),
            "sqliteVersion": sqlite3.sqlite_version,
            "path": str(self._path),
            "databaseBytes": read("PRAGMA page_count")[0][0] * page_bytes,
            "freeBytes": read("PRAGMA freelist_count")[0][0] * page_bytes,
            "logBytes": log.stat().st_size if log.exists() else 0,
            "journalMode": read("PRAGMA journal_mode")[0][0],
            "synchronous": self._synchronous,
        }

    def close(self) -> None:
        self._database.close()
