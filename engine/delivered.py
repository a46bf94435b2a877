"""What there is to know of a delivery once its claim has ended."""

from __future__ import annotations

from flo.engine.executions import Execution
from flo.engine.frozen import frozen
from flo.engine.jobs import Conclusion, LeaseLost
from flo.engine.run import Run
from flo.engine.values import Json


@frozen
class Delivered:
    """How a delivery ended: the execution as it stands then, None where the claim was ``lost``; and its run, None where
    it could not begin. ``raised`` is what its work came back with, if not with its ``output``, which has its secrets.
    """

    execution: Execution | None
    conclusion: Conclusion | None
    run: Run | None
    duration_ms: float
    lost: LeaseLost | None = None
    raised: BaseException | None = None
    output: Json = None
