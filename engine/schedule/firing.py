"""What a trigger starts: the request of one fire, made at that moment."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from flo.engine.clock import Clock
from flo.engine.errors import FloError, InputInvalid, NotFound, StepFailed, WorkflowInvalid
from flo.engine.executions import Execution
from flo.engine.frozen import frozen
from flo.engine.jobs import MAX_DEPTH, JobOptions, Request
from flo.engine.language.scope import Missing, Scope
from flo.engine.language.templates import compile_template
from flo.engine.language.workflow import Workflow
from flo.engine.requests import Requests
from flo.engine.run import utilities
from flo.engine.schedule.schedules import Overlap
from flo.engine.triggers import Trigger
from flo.engine.values import Json, JsonObject

log = logging.getLogger("flo.scheduler")

QUEUE_KEY: Final = "trigger:"
"""What runs of a trigger with ``overlap`` ``queue`` have as their concurrency key, before the trigger's id."""


@frozen
class Firer:
    """Makes requests of fires: the newest version of the workflow, ``initialData`` resolved now."""

    requests: Requests
    clock: Clock

    def request(
        self,
        trigger: Trigger,
        added: JsonObject,
        *,
        given: JsonObject | None = None,
        overlap: Overlap = "allow",
        depth: int = 0,
    ) -> Request:
        """The request to run the trigger's workflow. Its input is the workflow's own ``initial``, then ``initialData``,
        then ``given`` by a person, then ``added``: what the fire is about.

        ``depth`` is that of the execution whose end fires it. Raises ``FloError`` of every kind: where the workflow
        cannot be loaded here, a template gives no value, the input does not fit.
        """
        stored = self.requests.stored(trigger.workflow)
        workflow = self.requests.compiled(stored.document, stored.digest, f"workflow {stored.name!r}")
        if depth >= MAX_DEPTH:
            raise InputInvalid(
                f"trigger {trigger.full_name!r}",
                f"executions would follow from one another for the {depth + 1}th time, the limit is {MAX_DEPTH}",
            )
        data = self._data(trigger, workflow, added)
        config: Any = trigger.config
        options = JobOptions(queue=config.get("queue", "default"), priority=config.get("priority", 0))
        initial = {**data, **(given or {}), **added}
        request = self.requests.of_document(workflow, stored.version, initial, options)
        request = replace(request, trigger=trigger.kind, trigger_id=trigger.id, led_by=depth)
        if overlap == "queue":
            request = _one_after_the_other(request, trigger, workflow)
        return self.requests.vaults.stored(request)

    def opened(self, execution: Execution) -> Json:
        """What an execution gave, for the input of another one."""
        return self.requests.vaults.sealed_opened(execution.output, execution.id)

    def _data(self, trigger: Trigger, workflow: Workflow, added: JsonObject) -> JsonObject:
        """``initialData`` as it is now. Raises ``TemplateFailed``, ``InputInvalid``."""

        def missing(found: Missing) -> None:
            said = f"{found.path!r} is missing{found.hint}"
            if workflow.options.strict:
                raise InputInvalid(f"initialData of trigger {trigger.full_name!r}", said)
            log.warning("initialData of trigger %r: %s; it is null", trigger.full_name, said)

        names: dict[str, Any] = {"initial": {**workflow.initial, **added}, "$util": utilities(self.clock)}
        scope = Scope({**names, **self.requests.vaults.of("", workflow.environment).roots})
        data = compile_template(trigger.config.get("initialData", {})).resolve(scope, missing)
        if not isinstance(data, Mapping):
            raise InputInvalid(f"initialData of trigger {trigger.full_name!r}", "it gives no object")
        return data


def as_error(error: FloError) -> JsonObject:
    """A failure as firings keep it: ``code message``."""
    match error:
        case StepFailed(code=code):
            pass
        case WorkflowInvalid():
            code = "invalid_workflow"
        case InputInvalid():
            code = "invalid_input"
        case NotFound():
            code = "not_found"
        case _:
            code = "refused"
    return {"code": code, "message": str(error)}


def _one_after_the_other(request: Request, trigger: Trigger, workflow: Workflow) -> Request:
    """The same request, to be run when no earlier one of the trigger is unfinished. Raises ``InputInvalid`` where the
    workflow has a limit of its own: an execution has one concurrency key."""
    if request.concurrency_key is None:
        return replace(request, concurrency_key=f"{QUEUE_KEY}{trigger.id}", concurrency_limit=1, when_full="queue")
    options = workflow.options
    if options.max_concurrent == 1 and options.concurrency_key is None and options.when_full == "queue":
        return request  # one at a time already, whatever starts it
    raise InputInvalid(
        f"trigger {trigger.full_name!r}",
        "its 'overlap' is 'queue', and the workflow's options have a limit of their own; leave 'overlap' out, or let"
        " the options be 'maxConcurrent': 1",
    )
