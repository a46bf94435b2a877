"""flo as durable workflows: runs of ten steps, one after the other."""

from __future__ import annotations

from typing import Final

from benchmarks import tables
from benchmarks.own.steps import NOTHING
from flo.engine import app
from flo.engine.values import JsonObject

STEPS: Final = 10

_WRITING: Final[JsonObject] = {
    "steps": [
        {
            "stepId": f"step-{number}",
            "stepType": "data-store.set",
            "input": {"tableName": "items", "key": f"<< initial.number >>-{number}", "value": {"number": number}},
        }
        for number in range(STEPS)
    ]
}
_LOOKING: Final[JsonObject] = {
    "steps": [{"stepId": f"step-{number}", "stepType": NOTHING, "input": {"number": number}} for number in range(STEPS)]
}


class Contestant:
    """An engine over one database."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._engine = app.open(url, steps=["benchmarks.own.steps"])
        self._writing, self._looking = self._engine.load(_WRITING), self._engine.load(_LOOKING)

    def prepare(self, executions: int) -> None:
        """Forget every execution."""
        tables.run(self._url, tables.CLEAR_EXECUTIONS)
        tables.clear_rows(self._url, "items")

    def run(self, executions: int, writes: bool) -> int:
        """Run workflows of ten steps, which write a row each or nothing; gives how many ended well."""
        workflow = self._writing if writes else self._looking
        runs = (self._engine.run(workflow, {"number": number}) for number in range(executions))
        return sum(run.error is None for run in runs)

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()
