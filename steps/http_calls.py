"""A whole call: the request, its redirects, and the tries."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus

from flo.engine.errors import RunCancelled, StepFailed
from flo.engine.frozen import frozen
from flo.engine.step import Outcome, StepCall
from flo.engine.values import Json, JsonObject
from flo.steps.http_answers import output_of
from flo.steps.http_exchange import Answer, Fields, Hop, exchange
from flo.steps.http_network import Expired, Network, Watch
from flo.steps.http_redirects import SEE_OTHER, next_hop, redirects
from flo.steps.http_requests import Plan, plan_of
from flo.steps.http_retrying import seconds_of, wait_before, worth_another


@frozen
class _Try:
    """How a try ended: with an answer of the last ``hop``, or with a failure. ``retryable``: another one may help, and
    does no harm. ``number`` counts from 1."""

    hop: Hop
    ended: Answer | StepFailed
    retryable: bool
    number: int = 1

    @property
    def said(self) -> str:
        """What went wrong."""
        often = f", tried {self.number} times" if self.number > 1 else ""
        if isinstance(self.ended, StepFailed):
            return self.ended.message + often
        return f"HTTP {self.ended.status}{_phrase(self.ended.status)} from {self.hop.shown}{often}"


def request(
    call: StepCall, input: JsonObject, *, network: Network, chance: Callable[[], float] = random.random
) -> Outcome:
    """Do what an input of ``core.http`` asks for. ``chance`` (0..1) spreads the waits between tries.

    Raises ``StepFailed`` without an answer, ``RunCancelled``.
    """
    plan = plan_of(input, call.secrets)
    last = _tries(call, plan, network, chance)
    # whoever asked for tries here has chosen this level: the step's own retry does not multiply them
    retryable = last.retryable and plan.retries == 0
    if isinstance(last.ended, StepFailed):
        raise StepFailed(last.said, code=last.ended.code, retryable=retryable) from last.ended
    errors = (last.said,) if last.ended.status >= 400 else ()
    after = seconds_of(last.ended.header("retry-after"), call.clock.now()) if errors else None
    output, warnings = _read(call, last.hop, last.ended)
    return Outcome(output, errors, (*plan.warnings, *warnings), retryable, after)


def _tries(call: StepCall, plan: Plan, network: Network, chance: Callable[[], float]) -> _Try:
    """Try until it is not worth another, or there are no tries left."""
    number = 1
    while True:
        tried = replace(_try(call, plan, network), number=number)
        if number > plan.retries or not tried.retryable:
            return tried
        asked = None
        if isinstance(tried.ended, Answer):
            asked = seconds_of(tried.ended.header("retry-after"), call.clock.now())
        wait = wait_before(number, asked, chance())
        if call.deadline is not None and call.clock.monotonic() + wait >= call.deadline:
            return tried
        call.log("warn", f"{tried.said}; next try in {wait:.3g} s")
        if call.clock.wait(call.cancelled, wait):
            raise RunCancelled("cancelled")
        number += 1


def _try(call: StepCall, plan: Plan, network: Network) -> _Try:
    """Send the request, and follow where it leads, within one time for all of it."""
    seconds = plan.timeout
    if call.deadline is not None:
        seconds = min(seconds, call.deadline - call.clock.monotonic())
    watch = Watch(call.clock, call.cancelled, seconds)
    hop, acted, followed = plan.hop, False, 0
    leads_on = _leads_nowhere if plan.max_redirects is None else redirects
    try:
        while True:
            answer = exchange(hop, network, watch, plan.limit, leads_on)
            location = answer.header("location")
            if location is None or not leads_on(answer.status, answer.headers):
                return _Try(hop, answer, worth_another(answer.status, hop) and not acted)
            if followed == plan.max_redirects:
                what = f"redirected once more after {followed} redirects (maxRedirects)"
                raise hop.fails("too_many_redirects", what)
            acted = acted or (answer.status in SEE_OTHER and not hop.repeatable)
            hop, followed = next_hop(hop, answer.status, location), followed + 1
    except StepFailed as failed:
        return _Try(hop, failed, failed.retryable and not acted)


def _read(call: StepCall, hop: Hop, answer: Answer) -> tuple[dict[str, Json], tuple[str, ...]]:
    """Read the answer, within the step's own time: that of the try ends with the last byte of the body."""
    seconds = math.inf if call.deadline is None else call.deadline - call.clock.monotonic()
    try:
        return output_of(hop, answer, Watch(call.clock, call.cancelled, seconds))
    except Expired as error:
        raise hop.fails("timeout", "the time of the step was over before the body was read") from error


def _leads_nowhere(status: int, headers: Fields) -> bool:
    return False


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""
