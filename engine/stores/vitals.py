"""What ``flo doctor`` asks a database of either dialect."""

from __future__ import annotations

from typing import Final

from flo.engine.stores import migrations
from flo.engine.stores.database import Database
from flo.engine.values import JsonObject

_EXPIRED_LEASES: Final = "SELECT count(*) FROM executions WHERE state = 'running' AND due_at <= :now"


def read_common_vitals(database: Database) -> JsonObject:
    """``adapter schemaVersion knownSchemaVersion``, and where the schema is up to date ``expiredLeases``: how many
    executions run whose owner was not heard of in time."""
    version, known = migrations.schema_version(database), migrations.known_version(database.dialect)
    vitals: JsonObject = {"adapter": database.dialect, "schemaVersion": version, "knownSchemaVersion": known}
    return vitals if version != known else {**vitals, "expiredLeases": database.read(_EXPIRED_LEASES)[0][0]}
