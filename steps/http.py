"""The step type that speaks HTTP: ``core.http``."""

from __future__ import annotations

import os

from flo.engine.step import Outcome, StepCall, step_type
from flo.engine.values import JsonObject
from flo.steps.http_schemas import INPUT, OUTPUT


@step_type(
    "core.http",
    schema=INPUT,
    output=OUTPUT,
    example={
        "url": "https://api.example.com/orders/<< initial.orderId >>",
        "params": {"expand": ["lines", "customer"]},
        "headers": {"Authorization": "Bearer << $env.API_TOKEN >>"},
        "retryAttempts": 2,
    },
)
def http(call: StepCall, input: JsonObject) -> Outcome:
    """Send an HTTP request, and give the answer.

    An answer with status 400 or above is an operational error: the step counts as failed, its output stays readable.
    No answer is a failure with a code: `timeout`, `connection_failed`, `tls_error`, `blocked_address`,
    `too_many_redirects`, `too_large`, `decode_error`, … JSON bodies are read, text is decoded, anything else comes as
    base64; `bodyEncoding` says which. Link-local addresses and the metadata services of clouds are never reached.
    """
    from flo.steps.http_calls import request  # here, since httpx2 takes a fifth of a second to import
    from flo.steps.http_network import system_network

    return request(call, input, network=system_network(os.environ))
