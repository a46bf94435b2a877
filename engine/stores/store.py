"""The whole of a store: its parts, its schema, and the life of its connections."""

from __future__ import annotations

from typing import Protocol

from flo.engine.stores.base import DataStore, ExecutionStore, WorkflowStore
from flo.engine.stores.queueing import QueueStore
from flo.engine.stores.settings import SettingStore
from flo.engine.stores.triggering import TriggerStore
from flo.engine.values import JsonObject


class Store(Protocol):
    """The whole port, and the life of its connections. Opening one migrates nothing."""

    @property
    def url(self) -> str:
        """The URL as given, without its password."""

    @property
    def data(self) -> DataStore: ...

    @property
    def workflows(self) -> WorkflowStore: ...

    @property
    def executions(self) -> ExecutionStore: ...

    @property
    def queue(self) -> QueueStore: ...

    @property
    def triggers(self) -> TriggerStore: ...

    @property
    def settings(self) -> SettingStore: ...

    def migrate(self) -> int:
        """Bring the schema up to date under a lock; gives how many steps it took. Raises ``StoreTooNew``. Any number of
        processes may do it at once: each step is applied once, the rest wait."""

    def schema_version(self) -> int:
        """The newest migration that was applied; 0 for an empty store."""

    def vitals(self) -> JsonObject:
        """Facts for ``flo doctor``: adapter, server and schema version, sizes, and what the adapter finds worth
        knowing."""

    def close(self) -> None:
        """Give connections back. Closing twice does nothing."""
