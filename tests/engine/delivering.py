"""A part of a store that a test can break, and owners of executions that die where a test says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from flo.engine.app import Flo, open_store
from flo.engine.cancellation import Cancellation
from flo.engine.errors import StepFailed, StoreUnavailable
from flo.engine.events import Bus, StepEnded, StepStarted
from flo.engine.executions import Execution, StepRecord
from flo.engine.finishing import Finisher
from flo.engine.interpreter import Interpreter
from flo.engine.isolation.steps import IsolatedSteps
from flo.engine.jobs import LEASE, Delivery, JobOptions
from flo.engine.lifecycle import Runner
from flo.engine.registry import Registry
from flo.engine.renewal import Renewer
from flo.engine.requests import Requests
from flo.engine.step import Outcome, StepCall, StepType, step_type
from flo.engine.values import JsonObject
from flo.testing import FrozenClock

OBJECT: JsonObject = {"type": "object"}
INSTALLED = Registry.installed()

Act = Callable[[StepCall, JsonObject], "JsonObject | Outcome"]


class Over:
    """A part of a store, some of whose operations are replaced."""

    def __init__(self, part: Any, **replaced: Any) -> None:
        self._part = part
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)


class Died(BaseException):
    """An owner has died: nothing that it does from then on is stored."""


class House:
    """A store, a clock that the test moves, and what the step types of the test did in all owners together.

    ``test.act`` counts in ``ran`` that it was called, by its path, does what ``acts`` says for its stepId, and else
    gives its input back. ``test.act-whole`` does so in the transaction of its record, ``test.act-inside`` touches
    nothing outside the engine, ``test.act-joins`` waits for nothing but the store.
    """

    def __init__(self, url: str) -> None:
        self.clock = FrozenClock()
        self.store = open_store(url, self.clock)
        self.store.migrate()
        self.ran: Counter[str] = Counter()
        self.calls: list[StepCall] = []
        self.acts: dict[str, Act] = {}
        self.engine = Flo(self.store, Owner(self).registry, self.clock)

    def enqueue(self, steps: Sequence[Any], given: JsonObject | None = None, **document: Any) -> str:
        """Enqueue a workflow of these steps; gives the id of the execution."""
        return self.engine.enqueue({"steps": list(steps), **document}, given).execution_id

    def enqueue_job(self, handler: str, given: JsonObject | None = None, **options: Any) -> str:
        """Enqueue a step type."""
        return self.engine.enqueue(handler, given, JobOptions(**options)).execution_id

    def claim(self, worker: str = "w") -> Delivery:
        """Claim the one execution that is due."""
        [delivery] = self.store.queue.claim(["default"], worker=worker, lease=LEASE, limit=1).deliveries
        return delivery

    def dies(self, **where: Any) -> None:
        """Let an owner work on what is due until it dies, and its lease run out."""
        dying = Owner(self, **where)
        assert dying.deliver() is None, "it did not come to where it should have died"
        assert dying.dead, "it lost its claim"
        self.clock.forward(LEASE)

    def ends(self) -> Execution:
        """Let an owner work on what is due; gives the execution as it stands then."""
        execution = Owner(self).deliver()
        assert execution is not None
        return execution

    def get(self, execution_id: str) -> Execution:
        found = self.store.executions.get(execution_id)
        assert found is not None
        return found

    def records(self, execution_id: str) -> Mapping[str, StepRecord]:
        """The records of an execution, by their paths."""
        return {record.path: record for record in self.store.executions.steps(execution_id)}

    def outputs(self, execution_id: str) -> dict[str, Any]:
        """What each step gave, by its path."""
        return {path: record.output for path, record in self.records(execution_id).items()}

    def messages(self, execution_id: str, level: str = "info") -> list[str]:
        return [line.message for line in self.store.executions.lines(execution_id) if line.level == level]

    def close(self) -> None:
        self.engine.close()


class Owner:
    """One owner of executions, as the store sees a process.

    It dies in the body of the step at ``in_step``, when the step at ``before_step`` is to start, when the one at
    ``after_step`` has ended and is not recorded, or at its write number ``at_write``: before it is made, or once it is
    ``made`` and nobody was told. It gets no answer to its write number ``unanswered``, which was made.
    """

    def __init__(
        self,
        house: House,
        *,
        in_step: str = "",
        before_step: str = "",
        after_step: str = "",
        at_write: int = 0,
        made: bool = False,
        unanswered: int = 0,
    ) -> None:
        self.house, self.dead, self.writing = house, False, False
        self._in_step, self._before_step, self._after_step = in_step, before_step, after_step
        self._at_write, self._made, self._unanswered, self.writes = at_write, made, unanswered, 0
        store, clock = house.store, house.clock
        self.registry = Registry([*(INSTALLED[name] for name in INSTALLED), *self._step_types()])
        queue = Over(store.queue, own=self._writing(store.queue.own), conclude=self._writing(store.queue.conclude))
        executions = Over(store.executions, iterations=self._reading(store.executions.iterations))
        facade: Any = SimpleNamespace(
            data=store.data, workflows=store.workflows, executions=executions, queue=queue, triggers=store.triggers
        )
        requests = Requests(self.registry, store.workflows, clock)
        self.renewer = Renewer(facade, clock)
        self.runner = Runner(
            facade,
            Interpreter(self.registry),
            requests,
            clock,
            Bus(self._hear),
            self.renewer,
            IsolatedSteps(self.registry.source),
            Finisher(facade, clock),
            grace_seconds=0.1,
        )

    def deliver(self, delivery: Delivery | None = None, cancellation: Cancellation | None = None) -> Execution | None:
        """Work on a delivery, or on what is due; None where the owner died, or lost its claim."""
        delivery = delivery or self.house.claim()
        try:
            return self.runner.work(delivery, cancellation or Cancellation()).execution
        except Died:
            return None
        finally:
            self.renewer.close()

    def without(self, *names: str) -> Owner:
        """The same owner in a process that lacks some step types."""
        self.registry = Registry([self.registry[name] for name in self.registry if name not in names])
        requests = Requests(self.registry, self.house.store.workflows, self.house.clock)
        self.runner = replace(self.runner, interpreter=Interpreter(self.registry), requests=requests)
        return self

    def die(self) -> None:
        self.dead = True
        raise Died

    def _writing(self, write: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            self._live()
            self.writes += 1
            if self.writes == self._at_write:
                if self._made:
                    write(*given, **named)
                self.die()
            self.writing = True
            try:
                result = write(*given, **named)
            finally:
                self.writing = False
            if self.writes == self._unanswered:
                raise StoreUnavailable("the answer is lost")
            return result

        return counted

    def _reading(self, read: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*given: Any, **named: Any) -> Any:
            assert not self.writing, "results of a loop are read inside a transaction, which has to be short"
            return read(*given, **named)

        return checked

    def _hear(self, event: Any) -> None:
        self._live()
        if (isinstance(event, StepStarted) and event.path == self._before_step) or (
            isinstance(event, StepEnded) and event.record.path == self._after_step
        ):
            self.die()

    def _live(self) -> None:
        if self.dead:
            raise Died

    def _act(self, call: StepCall, input: JsonObject) -> JsonObject | Outcome:
        """Do what the test says."""
        self._live()
        self.house.ran[call.path] += 1
        self.house.calls.append(call)
        act = self.house.acts.get(call.step_id)
        given = input if act is None else act(call, input)
        if call.path == self._in_step:
            self.die()
        return given

    def _step_types(self) -> list[StepType]:
        return [
            step_type("test.act", schema=OBJECT, output=OBJECT, example={})(self._act),
            step_type("test.act-whole", schema=OBJECT, output=OBJECT, example={}, transactional=True)(self._act),
            step_type("test.act-inside", schema=OBJECT, output=OBJECT, example={}, touches=False)(self._act),
            step_type("test.act-joins", schema=OBJECT, output=OBJECT, example={}, touches=False, joins=True)(self._act),
        ]


def act(step_id: str, _input: JsonObject | None = None, kind: str = "test.act", **fields: Any) -> dict[str, Any]:
    """A step of the test."""
    return {"stepId": step_id, "stepType": kind, "input": _input or {}, **fields}


def step(step_id: str, kind: str, _input: Any = None, **fields: Any) -> dict[str, Any]:
    return {"stepId": step_id, "stepType": kind, "input": _input or {}, **fields}


CONCURRENCY = 1
"""Of a loop that says nothing of it."""


def loop(step_id: str, items: Any, *steps: Any, **fields: Any) -> dict[str, Any]:
    given = {"concurrency": CONCURRENCY} if CONCURRENCY > 1 else {}
    return step(step_id, "core.for-each", {"items": items, "steps": list(steps), **given, **fields})


def echo(step_id: str, _input: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return step(step_id, "test.echo", _input, **fields)


def fail(step_id: str, **fields: Any) -> dict[str, Any]:
    return step(step_id, "core.fail", {"message": "broken"}, **fields)


def failing(times: int, **how: Any) -> Any:
    """Fail so many times, in all owners together."""
    left = [times]

    def run(call: StepCall, input: JsonObject) -> JsonObject:
        if left[0] <= 0:
            return {"attempt": call.attempt}
        left[0] -= 1
        raise StepFailed("not yet", **how)

    return run
