"""Workflows by name and version, in SQL that both dialects accept."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from flo.engine.errors import InputInvalid
from flo.engine.stores.base import StoredWorkflow
from flo.engine.stores.database import Database, Execute
from flo.engine.stores.sql_rows import DEFINE
from flo.engine.stores.sql_standing import bring_in_step
from flo.engine.triggers import WantedTrigger
from flo.engine.values import new_id

_COLUMNS: Final = "w.id, w.name, v.version, v.digest, d.document, v.created_at"
_FROM: Final = (
    "FROM workflows w JOIN workflow_versions v ON v.workflow_id = w.id JOIN definitions d ON d.digest = v.digest"
)
_NEWEST: Final = "v.version = (SELECT max(n.version) FROM workflow_versions n WHERE n.workflow_id = w.id)"

_FIND: Final = f"""
SELECT {_COLUMNS}, 1 AS place {_FROM} WHERE w.name = :name AND {{wanted}}
UNION ALL
SELECT {_COLUMNS}, 2 AS place {_FROM} WHERE w.id = :name AND {{wanted}}
ORDER BY place LIMIT 1
"""

_CLAIM_NAME: Final = """
INSERT INTO workflows (id, name, created_at) VALUES (:id, :name, :now)
ON CONFLICT (tenant, name) DO UPDATE SET name = excluded.name
RETURNING id
"""
"""Gives the id that has the name, new or not, and holds its row locked, so that versions are counted one at a time."""

_ADD_VERSION: Final = (
    "INSERT INTO workflow_versions (workflow_id, version, digest, created_at) VALUES (:id, :version, :digest, :now)"
)
_MOVE_TRIGGERS: Final = """
UPDATE triggers SET workflow_id = :new, revision = revision + 1, updated_at = :now WHERE workflow_id = :old
"""
"""What was prepared for the workflow under its old name is refused."""


class SqlWorkflows:
    """The ``WorkflowStore`` of both SQL adapters."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(
        self,
        name: str,
        document: str,
        *,
        pinned_id: str | None = None,
        triggers: Sequence[WantedTrigger] | None = None,
    ) -> StoredWorkflow:
        digest = hashlib.sha256(document.encode()).hexdigest()
        fresh = pinned_id or new_id()

        def work(execute: Execute) -> StoredWorkflow:
            if pinned_id is not None:
                _rename(execute, name, pinned_id)
            identity = execute(_CLAIM_NAME, {"id": fresh, "name": name})[0][0]
            if triggers is not None:  # before definitions, as who fires one does
                bring_in_step(self._database, execute, identity, name, triggers)
            newest = execute(f"SELECT {_COLUMNS} {_FROM} WHERE w.id = :id AND {_NEWEST}", {"id": identity})
            if not newest or newest[0][3] != digest:
                version = newest[0][2] + 1 if newest else 1
                execute(DEFINE, {"digest": digest, "document": document})
                execute(_ADD_VERSION, {"id": identity, "version": version, "digest": digest})
                newest = execute(f"SELECT {_COLUMNS} {_FROM} WHERE w.id = :id AND {_NEWEST}", {"id": identity})
            return self._workflow(newest[0])

        return self._database.write(work)

    def get(self, name: str, version: int | None = None) -> StoredWorkflow | None:
        wanted = _NEWEST if version is None else "v.version = :version"
        values: dict[str, object] = {"name": name} if version is None else {"name": name, "version": version}
        rows = self._database.read(_FIND.format(wanted=wanted), values)
        return self._workflow(rows[0]) if rows else None

    def list(self) -> Sequence[StoredWorkflow]:
        rows = self._database.read(f"SELECT {_COLUMNS} {_FROM} WHERE {_NEWEST} ORDER BY w.name")
        return [self._workflow(row) for row in rows]

    def _workflow(self, row: tuple[Any, ...]) -> StoredWorkflow:
        return StoredWorkflow(row[0], row[1], row[2], row[3], row[4], self._database.instant(row[5]))


def _rename(execute: Execute, name: str, pinned_id: str) -> None:
    """Give the workflow of ``pinned_id`` its new name, or the workflow of that name this id, where it had none."""
    holder = execute("SELECT id FROM workflows WHERE name = :name", {"name": name})
    if holder and holder[0][0] == pinned_id:
        return
    pinned = execute("SELECT name FROM workflows WHERE id = :id", {"id": pinned_id})
    if pinned and holder:
        raise InputInvalid(
            f"workflow {name!r}",
            f"its id {pinned_id!r} belongs to {pinned[0][0]!r}, and another workflow has this name;"
            " change the id or the name",
        )
    if pinned:
        execute("UPDATE workflows SET name = :name WHERE id = :id", {"name": name, "id": pinned_id})
        execute(_MOVE_TRIGGERS, {"old": pinned_id, "new": pinned_id})
    elif holder:
        for statement in (
            "UPDATE workflows SET id = :new WHERE id = :old",
            "UPDATE workflow_versions SET workflow_id = :new WHERE workflow_id = :old",
            _MOVE_TRIGGERS,
        ):
            execute(statement, {"new": pinned_id, "old": holder[0][0]})
