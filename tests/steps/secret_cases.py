"""What the tests of secrets in executions share: the secret, and a step that gives a value."""

from __future__ import annotations

from typing import Any

SECRET = "s3cret, or so"


def give(value: Any) -> dict[str, Any]:
    return {"stepId": "give", "stepType": "core.return", "input": {"found": value}}
