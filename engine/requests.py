"""From what is asked for to what can run: a stored workflow, a document or a step type becomes a request, and the
definition that an execution keeps becomes a workflow again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, Literal, cast

from flo.engine.checking.input_schema import input_violations
from flo.engine.checking.load import check_input, load
from flo.engine.clock import Clock
from flo.engine.errors import InputInvalid, NotFound, StepFailed
from flo.engine.executions import Execution
from flo.engine.frozen import frozen
from flo.engine.hiding import has_secret
from flo.engine.jobs import JOB_RETRY, JobOptions, Request
from flo.engine.language.paths import Path
from flo.engine.language.scope import Missing, OnMissing, Scope
from flo.engine.language.workflow import Block, Options, Paths, Step, Workflow
from flo.engine.registry import Registry
from flo.engine.retry import ONCE, Retry
from flo.engine.run import utilities
from flo.engine.secrecy import shown_forms
from flo.engine.step import StepType
from flo.engine.stores.base import StoredWorkflow, WorkflowStore
from flo.engine.values import Json, JsonObject, dump, place_text, plain
from flo.engine.vaults import Vaults

JOB_STEP: Final = "job"
"""The one step of an execution whose handler is a step type."""

MAX_INPUT: Final = 64 * 1024 * 1024
"""An execution's input may have so many characters as JSON."""

_KEPT_WORKFLOWS: Final = 64


class Requests:
    """Makes requests, and workflows of definitions. The newest compiled ones are kept: by digest, those of jobs by
    what they are given, too."""

    def __init__(
        self, registry: Registry, workflows: WorkflowStore, clock: Clock, vaults: Vaults | None = None
    ) -> None:
        self.registry, self.vaults = registry, vaults or Vaults()
        self._workflows, self.utilities = workflows, utilities(clock)
        self._compiled: OrderedDict[Hashable, Workflow] = OrderedDict()

    def stored(self, name: str, version: int | None = None) -> StoredWorkflow:
        """A stored workflow by its name or id, the newest version unless one is named. Raises ``NotFound``."""
        found = self._workflows.get(name, version)
        if found is not None:
            return found
        if version is not None and self._workflows.get(name) is not None:
            raise NotFound("version", f"{version} of {name}")
        raise NotFound("stored workflow", name, (held.name for held in self._workflows.list()))

    def newest(self, name: str | None) -> StoredWorkflow | None:
        """The newest version of a stored workflow, if there is one of the name."""
        return None if name is None else self._workflows.get(name)

    def compiled(self, definition: str, digest: str, source: str) -> Workflow:
        """The workflow of a document. Raises ``WorkflowInvalid``, where step types are not there that it was stored
        with, for one."""
        if (held := self._compiled.get(digest)) is None:
            held = load(definition, self.registry, source).workflow
            self._keep(digest, held)
        return held

    def definition(self, execution: Execution) -> Workflow:
        """What an execution runs: the definition it started with. Raises ``WorkflowInvalid``, and ``NotFound`` for a
        handler that is not there."""
        if execution.handler is None:
            source = f"the definition of execution {execution.id}"
            return self.compiled(execution.definition, execution.digest, source)
        fields = tuple(execution.input)
        key = execution.handler, execution.digest, fields
        if (held := self._compiled.get(key)) is None:
            held = _job(self.registry[execution.handler], execution, fields)
            self._keep(key, held)
        return held

    def retry(self, execution: Execution, workflow: Workflow | None) -> Retry:
        """How a failed execution is tried again as a whole."""
        if execution.queue is None:
            return ONCE
        if execution.handler is not None or workflow is None:
            return JOB_RETRY
        return workflow.options.retry or ONCE

    def find(self, target: str, kind: Literal["workflow", "handler"] | None = None) -> tuple[Workflow, int] | str:
        """What a producer names: a stored workflow with its version, or a step type; where ``kind`` leaves that open, a
        stored workflow first.

        A step type that is not there may be known to a worker: a name with a dot passes. Raises ``NotFound``.
        """
        stored = self.stored(target) if kind == "workflow" else None
        if kind is None:
            stored = self._workflows.get(target)
        if stored is not None:
            source = f"workflow {stored.name!r}"
            return self.compiled(stored.document, stored.digest, source), stored.version
        if target in self.registry:
            return self.registry[target].name
        if "." in target:
            return target
        if kind == "handler":
            raise NotFound("step type", target, self.registry)
        known = [*(held.name for held in self._workflows.list()), *self.registry]
        raise NotFound("stored workflow or step type", target, known)

    def inline(self, document: JsonObject) -> Workflow:
        """The workflow of a document that stands in another one. Raises ``WorkflowInvalid``."""
        text = dump(document)
        return self.compiled(text, sha256(text.encode()).hexdigest(), "the workflow of the step")

    def of_document(
        self, workflow: Workflow, version: int | None, initial: JsonObject | None, options: JobOptions
    ) -> Request:
        """The request to run a workflow in a queue. Raises ``InputInvalid`` where the input does not fit its
        ``inputSchema``."""
        environments = options.environment, options.inherited_environment
        request = self.of_workflow(workflow, version, initial, options, *environments)
        if said := misfit(workflow, request.input):
            raise InputInvalid(f"input of {workflow.name or workflow.source}", said)
        return request

    def of_workflow(
        self,
        workflow: Workflow,
        version: int | None,
        initial: JsonObject | None,
        options: JobOptions | None,
        environment: str | None = None,
        inherited: str | None = None,
    ) -> Request:
        """The request to run a workflow: in a queue as ``options`` say, or by who asks where they are None. It runs in
        the ``environment`` that was chosen, else in that of its document, else in the ``inherited`` one.

        The input is merged over the document's own, shallowly. Raises ``ValueRefused``. Whether it fits
        ``inputSchema``, ``misfit`` tells.
        """
        given = plain({**workflow.initial, **(initial or {})}, ("initial",))
        assert isinstance(given, dict)
        runs_in = environment or workflow.environment or inherited
        key, limit = self._concurrency(workflow, given, options, runs_in)
        return Request(
            definition=workflow.text,
            digest=workflow.digest,
            input=given,
            workflow=workflow.name,
            version=version,
            concurrency_key=key,
            concurrency_limit=limit,
            when_full=workflow.options.when_full,
            environment=runs_in,
            environment_chosen=environment is not None,
            **_wishes(options, workflow.name or workflow.digest, given),
        )

    def of_handler(self, handler: str, initial: JsonObject | None, options: JobOptions) -> Request:
        """The request to run one step type. Raises ``InputInvalid`` where its input does not fit."""
        given = plain(initial or {}, ("input",))
        assert isinstance(given, dict)
        if handler in self.registry:
            step_type = self.registry[handler]
            if step_type.branches:
                raise InputInvalid(handler, "it holds other steps: put it into a workflow, and enqueue that")
            if said := _misfits(step_type, given):
                raise InputInvalid(f"input of {step_type.name}", said)
        definition, digest = _job_definition(handler)
        return Request(
            definition,
            digest,
            given,
            handler=handler,
            concurrency_key=options.concurrency_key,
            environment=options.environment or options.inherited_environment,
            environment_chosen=options.environment is not None,
            **_wishes(options, handler, given),
        )

    def _keep(self, key: Hashable, workflow: Workflow) -> None:
        self._compiled[key] = workflow
        if len(self._compiled) > _KEPT_WORKFLOWS:
            self._compiled.popitem(last=False)

    def _concurrency(
        self, workflow: Workflow, initial: JsonObject, options: JobOptions | None, environment: str | None
    ) -> tuple[str | None, int | None]:
        """The concurrency key of a run, and how many of one key run at a moment."""
        bound = workflow.options.max_concurrent
        if options is not None and options.concurrency_key is not None:
            return options.concurrency_key, bound
        template = workflow.options.concurrency_key
        if template is not None:
            vault = self.vaults.of("", environment)
            scope = Scope({"initial": initial, "$util": self.utilities, **vault.roots})
            key = template.resolve(scope, _refuse_missing)
            if has_secret(key):
                raise InputInvalid("options.concurrencyKey", "it is stored to be read, and would hold a secret")
            return key if isinstance(key, str) else dump(key), bound
        if bound is not None:
            return f"workflow:{workflow.name or workflow.digest}", bound
        return None, None


def misfit(workflow: Workflow, initial: JsonObject) -> str | None:
    """What ``inputSchema`` says against an input, in words; None where it fits."""
    problems = check_input(workflow, initial)
    if not problems:
        return None
    return "the input does not fit inputSchema: " + "; ".join(str(problem) for problem in problems)


def _wishes(options: JobOptions | None, target: str, given: JsonObject) -> dict[str, Any]:
    """The fields of a request that its producer chooses. Raises ``InputInvalid`` where its input is too large."""
    text = dump(given)
    if len(text) > MAX_INPUT:
        raise InputInvalid(f"input of {target}", f"it has {len(text):,} characters as JSON, the limit is {MAX_INPUT:,}")
    if options is None:
        return {"queue": None, "input_text": text}
    if not options.queue:
        raise InputInvalid("queue", "its name is empty; leave it out for 'default'")
    wishes: dict[str, Any] = {
        "input_text": text,
        "queue": options.queue,
        "priority": options.priority,
        "run_at": options.run_at,
        "delay": options.delay,
        "deadline": options.deadline,
    }
    if options.key is not None:
        identity = dump([target, options.queue, shown_forms(given)])
        wishes |= {"key": options.key, "identity": sha256(identity.encode()).hexdigest()}
    return wishes


@lru_cache(maxsize=64)
def _job_definition(handler: str) -> tuple[str, str]:
    """The document of an execution whose handler is a step type, and its digest."""
    definition = dump({"steps": [{"stepId": JOB_STEP, "stepType": handler}]})
    return definition, sha256(definition.encode()).hexdigest()


def _refuse_missing(missing: Missing) -> None:
    raise InputInvalid("options.concurrencyKey", f"{missing.path!r} is missing{missing.hint}")


def _job(step_type: StepType, execution: Execution, fields: Sequence[str]) -> Workflow:
    """A workflow of one step, whose input is the execution's: data, in which nothing is a template."""

    def recheck(value: JsonObject) -> None:
        if said := _misfits(step_type, value):
            raise StepFailed(said, code="invalid_input", retryable=False)

    given = {key: _Given(key, (((), Path("initial", (key,), 0, f"initial.{key}")),)) for key in fields}
    step = Step(id=JOB_STEP, type=step_type.name, place="", input=given, recheck=recheck)
    return Workflow(
        document={},
        text=execution.definition,
        digest=execution.digest,
        source=step_type.name,
        block=Block((step,), ((),), True),
        options=Options(),
    )


@frozen
class _Given:
    """A field of the execution's input as it was given: data, whatever marks of templates are in it."""

    key: str
    paths: Paths
    constant: Final = False

    def resolve(self, scope: Scope, on_missing: OnMissing) -> Json:
        return cast(JsonObject, scope.root("initial"))[self.key]


def _misfits(step_type: StepType, given: JsonObject) -> str:
    found = input_violations(step_type.schema, given)
    return "; ".join(f"{place_text(each.place) or 'input'}: {each.message}" for each in found)
