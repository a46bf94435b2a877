"""The memory store: everything in this process, gone with it."""

from __future__ import annotations

from flo.engine.clock import Clock
from flo.engine.stores.base import DataStore, ExecutionStore, WorkflowStore
from flo.engine.stores.memory_executions import MemoryExecutions
from flo.engine.stores.memory_ledger import Ledger
from flo.engine.stores.memory_queue import MemoryQueue
from flo.engine.stores.memory_rows import MemoryData
from flo.engine.stores.memory_settings import MemorySettings
from flo.engine.stores.memory_triggers import MemoryTriggers
from flo.engine.stores.memory_workflows import MemoryWorkflows
from flo.engine.stores.queueing import QueueStore
from flo.engine.stores.settings import SettingStore
from flo.engine.stores.triggering import TriggerStore
from flo.engine.values import JsonObject


class MemoryStore:
    """A store for tests, trials and runs that keep nothing. Callers share no object with it."""

    url: str = "memory:"

    def __init__(self, clock: Clock) -> None:
        self._rows = MemoryData(clock)
        ledger = Ledger(clock)
        self.data: DataStore = self._rows
        workflows = MemoryWorkflows(ledger)
        self.workflows: WorkflowStore = workflows
        self.executions: ExecutionStore = MemoryExecutions(ledger)
        self.queue: QueueStore = MemoryQueue(ledger, self._rows)
        self.triggers: TriggerStore = MemoryTriggers(ledger, workflows)
        self.settings: SettingStore = MemorySettings(clock)

    def migrate(self) -> int:
        return 0

    def schema_version(self) -> int:
        return 0

    def vitals(self) -> JsonObject:
        return {"adapter": "memory", "tables": len(self._rows.tables()), "valueBytes": self._rows.size()}

    def close(self) -> None:
        pass
