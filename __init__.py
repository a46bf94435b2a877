"""Run workflows written as JSON: now, on a schedule, or from a queue that many workers drain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flo.engine.errors import FloError, RunCancelled, StepFailed

if TYPE_CHECKING:
    from flo.engine.app import Flo
    from flo.engine.clock import Clock
    from flo.engine.events import Listener
    from flo.engine.step import Outcome, StepCall, step_type

__all__ = ["FloError", "Outcome", "RunCancelled", "StepCall", "StepFailed", "open", "step_type"]


def open(
    url: str | None = None,
    *,
    clock: Clock | None = None,
    steps: Sequence[str] = (),
    listeners: Sequence[Listener] = (),
    strict_plugins: bool = False,
) -> Flo:
    """Open an engine over a store: ``with flo.open("sqlite:flo.sqlite") as engine: engine.run({...})``.

    What ``engine.app.open`` says holds here; this one keeps ``import flo`` light.
    """
    from flo.engine.app import open as open_engine

    return open_engine(url, clock=clock, steps=steps, listeners=listeners, strict_plugins=strict_plugins)


def __getattr__(name: str) -> object:
    """What authors of step types import, which the command does without for its help."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from flo.engine import step

    return getattr(step, name)
