"""What ``flo doctor`` asks a PostgreSQL server: sizes, what vacuum has left over, and who keeps it from its work."""

from __future__ import annotations

from typing import Final

from flo.engine.instants import write_instant
from flo.engine.stores.postgres_database import PostgresDatabase
from flo.engine.values import JsonObject

SHOWN_QUERY: Final = 80
"""So many characters of a session's query are shown."""

# Sessions of others are visible to a superuser and to members of pg_read_all_stats only.
_SERVER: Final = """
SELECT current_setting('server_version'),
       pg_database_size(current_database()),
       (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
        WHERE c.relnamespace = to_regnamespace('flo') AND c.relkind = 'r'),
       (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()),
       current_setting('max_connections')::int
"""

_VACUUM: Final = """
SELECT coalesce(sum(n_dead_tup), 0)::bigint, coalesce(sum(n_live_tup), 0)::bigint, max(last_autovacuum),
       current_setting('autovacuum')::boolean AND current_setting('track_counts')::boolean,
       (SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND backend_type = 'autovacuum worker')
FROM pg_stat_user_tables WHERE schemaname = 'flo'
"""

_OLDEST: Final = f"""
SELECT pid, usename, application_name, state, extract(epoch FROM statement_timestamp() - xact_start)::float8,
       left(query, {SHOWN_QUERY})
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
  AND xact_start IS NOT NULL
ORDER BY xact_start LIMIT 1
"""


def read_vitals(database: PostgresDatabase) -> JsonObject:
    """``serverVersion databaseBytes floBytes deadTuples liveTuples autovacuum oldestTransactionSeconds
    oldestTransaction connections maxConnections``.

    ``autovacuum`` is ``{enabled lastRun running}``. ``oldestTransaction`` is ``{pid user application state seconds
    query}`` of the session whose transaction has been open longest, or null.
    """
    version, database_bytes, flo_bytes, connections, most = database.read(_SERVER)[0]
    dead, live, last_run, enabled, running = database.read(_VACUUM)[0]
    oldest = _oldest(database)
    return {
        "serverVersion": version,
        "databaseBytes": database_bytes,
        "floBytes": flo_bytes,
        "deadTuples": dead,
        "liveTuples": live,
        "autovacuum": {
            "enabled": enabled,
            "lastRun": None if last_run is None else write_instant(database.instant(last_run)),
            "running": running,
        },
        "oldestTransactionSeconds": 0.0 if oldest is None else oldest["seconds"],
        "oldestTransaction": oldest,
        "connections": connections,
        "maxConnections": most,
    }


def _oldest(database: PostgresDatabase) -> JsonObject | None:
    for pid, user, application, state, seconds, query in database.read(_OLDEST):
        return {
            "pid": pid,
            "user": user,
            "application": application,
            "state": state,
            "seconds": round(seconds, 3),
            "query": query,
        }
    return None
