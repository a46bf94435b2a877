"""The step type that runs a whole workflow as one step."""

from __future__ import annotations

from flo.engine.step import StepCall, step_type
from flo.engine.values import JsonObject


@step_type(
    "core.sub-workflow",
    schema={
        "type": "object",
        "additionalProperties": False,
        "oneOf": [
            {"required": ["workflowTemplateName"]},
            {"required": ["workflowTemplateId"]},
            {"required": ["workflow"]},
        ],
        "properties": {
            "workflowTemplateName": {
                "type": "string",
                "minLength": 1,
                "description": "A stored workflow, by its name.",
            },
            "workflowTemplateId": {"type": "string", "minLength": 1, "description": "A stored one, by its id."},
            "workflow": {
                "type": "object",
                "description": "Or a whole workflow, written out here. Its templates see its own input and steps.",
            },
            "inputs": {"type": "object", "default": {}, "description": "Its input: `initial` of the workflow called."},
        },
    },
    output={"type": "object", "description": "What the workflow returned with `core.return`; nothing without it."},
    example={"workflowTemplateName": "send-invoice", "inputs": {"orderId": "<< initial.orderId >>"}},
    documents=("workflow",),
)
def sub_workflow(call: StepCall, input: JsonObject) -> JsonObject:
    """Run another workflow, and give what it returned.

    It runs as an execution of its own, a part of this one: cancelled with it, and with a failure that fails this step.
    A stored workflow is called in the version that is the newest when the step begins. Calls nest 10 deep.
    """
    named = input.get("workflowTemplateName", input.get("workflowTemplateId"))
    document, given = input.get("workflow"), input.get("inputs", {})
    assert isinstance(given, dict)
    if isinstance(document, dict):
        return call.engine.run_workflow(document, given)
    return call.engine.run_workflow(str(named), given)
