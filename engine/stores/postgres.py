"""The PostgreSQL store: many machines, one database, every instant from its clock."""

from __future__ import annotations

from functools import partial

from flo.engine.clock import Clock
from flo.engine.stores import migrations, postgres_claims, postgres_enqueue
from flo.engine.stores.postgres_connections import Address
from flo.engine.stores.postgres_data import PostgresData
from flo.engine.stores.postgres_database import Joined, PostgresDatabase
from flo.engine.stores.postgres_vitals import read_vitals
from flo.engine.stores.postgres_wakeups import PostgresWakeups
from flo.engine.stores.queueing import QueueStore
from flo.engine.stores.settings import SettingStore
from flo.engine.stores.sql import SqlExecutions
from flo.engine.stores.sql_queue import SqlQueue
from flo.engine.stores.sql_settings import SqlSettings
from flo.engine.stores.sql_triggers import SqlTriggers
from flo.engine.stores.sql_workflows import SqlWorkflows
from flo.engine.stores.standing import SCHEDULERS
from flo.engine.stores.triggering import TriggerStore
from flo.engine.stores.vitals import read_common_vitals
from flo.engine.values import JsonObject


class PostgresStore:
    """One PostgreSQL database. ``open`` makes it."""

    def __init__(self, database: PostgresDatabase, address: Address) -> None:
        self.url = database.url
        self._database = database
        self.data = PostgresData(database)
        self.workflows = SqlWorkflows(database)
        self.executions = SqlExecutions(database)
        self.queue: QueueStore = SqlQueue(
            database,
            data=lambda execute: PostgresData(Joined(database, execute)),
            wakeups=lambda queues: PostgresWakeups(address, queues),
            enqueue=partial(postgres_enqueue.enqueue, database),
            claim=partial(postgres_claims.claim, database),
        )
        self.triggers: TriggerStore = SqlTriggers(database, wakeups=lambda: PostgresWakeups(address, [SCHEDULERS]))
        self.settings: SettingStore = SqlSettings(database)

    @classmethod
    def open(cls, url: str, clock: Clock | None = None, *, connections: int = 32) -> PostgresStore:
        """Open the store of a ``postgresql://`` URL, with up to ``connections`` sessions at once.

        Connects at the first use, and raises ``StoreUnavailable`` then. ``clock`` stands in for the server's, so that
        tests can move the time; with it, machines whose clocks differ would disagree about who owns what.
        """
        address = Address(url)
        return cls(PostgresDatabase(address, clock=clock, connections=connections), address)

    def migrate(self) -> int:
        return migrations.migrate(self._database)

    def schema_version(self) -> int:
        return migrations.schema_version(self._database)

    def vitals(self) -> JsonObject:
        return {**read_common_vitals(self._database), **read_vitals(self._database)}

    def close(self) -> None:
        self._database.close()
