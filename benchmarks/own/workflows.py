"""flo as durable workflows: runs of ten steps, one after the other."""

from __future__ import annotations

from typing import Final

from benchmarks import tables
from benchmarks.own.steps import NOTHING, OUTSIDE
from flo.engine import app
from flo.engine.values import JsonObject

STEPS: Final = 10


def _calling(step_type: str) -> JsonObject:
    return {"steps": [{"stepId": f"step-{at}", "stepType": step_type, "input": {"number": at}} for at in range(STEPS)]}


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


class Contestant:
    """An engine over one database."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._engine = app.open(url, steps=["benchmarks.own.steps"])
        documents = {"rows": _WRITING, "outside": _calling(OUTSIDE), "nothing": _calling(NOTHING)}
        self._workflows = {does: self._engine.load(document) for does, document in documents.items()}

    def prepare(self, executions: int) -> None:
        """Forget every execution."""
        tables.run(self._url, tables.CLEAR_EXECUTIONS)
        tables.clear_rows(self._url, "items")

    def run(self, executions: int, does: str) -> int:
        """Run workflows of ten steps, which write ``rows``, act ``outside`` or do ``nothing``; gives how many ended
        well."""
        runs = (self._engine.run(self._workflows[does], {"number": number}) for number in range(executions))
        return sum(run.error is None for run in runs)

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()
