"""Run workflows written as JSON: now, on a schedule, or from a queue that many workers drain."""

from flo.engine.errors import FloError, StepFailed
from flo.engine.step import StepCall, step_type

__all__ = ["FloError", "StepCall", "StepFailed", "step_type"]
