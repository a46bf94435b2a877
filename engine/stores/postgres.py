"""The PostgreSQL store: many machines, one database, every instant from its clock."""

from __future__ import annotations

from flo.engine.clock import Clock
from flo.engine.stores import migrations
from flo.engine.stores.postgres_connections import Address
from flo.engine.stores.postgres_data import PostgresData
from flo.engine.stores.postgres_database import PostgresDatabase
from flo.engine.stores.sql import SqlExecutions
from flo.engine.stores.sql_workflows import SqlWorkflows
from flo.engine.values import JsonObject

_VITALS = """
SELECT current_setting('server_version'),
       pg_database_size(current_database()),
       (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
        WHERE c.relnamespace = to_regnamespace('flo') AND c.relkind = 'r'),
       (SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables WHERE schemaname = 'flo'),
       (SELECT coalesce(extract(epoch FROM max(statement_timestamp() - xact_start)), 0)::float8 FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL),
       (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()),
       current_setting('max_connections')::int
"""


class PostgresStore:
    """One PostgreSQL database. ``open`` makes it."""

    def __init__(self, database: PostgresDatabase) -> None:
        self.url = database.url
        self._database = database
        self.data = PostgresData(database)
        self.workflows = SqlWorkflows(database)
        self.executions = SqlExecutions(database)

    @classmethod
    def open(cls, url: str, clock: Clock | None = None, *, connections: int = 32) -> PostgresStore:
        """Open the store of a ``postgresql://`` URL, with up to ``connections`` sessions at once.

        Connects at the first use, and raises ``StoreUnavailable`` then. ``clock`` stands in for the server's, so that
        tests can move the time; with it, machines whose clocks differ would disagree about who owns what.
        """
        return cls(PostgresDatabase(Address(url), clock=clock, connections=connections))

    def migrate(self) -> int:
        return migrations.migrate(self._database)

    def schema_version(self) -> int:
        return migrations.schema_version(self._database)

    def vitals(self) -> JsonObject:
        row = self._database.read(_VITALS)[0]
        return {
            "adapter": "postgresql",
            "serverVersion": row[0],
            "schemaVersion": self.schema_version(),
            "knownSchemaVersion": migrations.known_version("postgresql"),
            "databaseBytes": row[1],
            "floBytes": row[2],
            "deadTuples": row[3],
            "oldestTransactionSeconds": round(row[4], 3),
            "connections": row[5],
            "maxConnections": row[6],
        }

    def close(self) -> None:
        self._database.close()
