"""When to try again: attempt in, delay or giving up out. Pure."""

from __future__ import annotations

from typing import Literal

from flo.engine.frozen import frozen


@frozen
class Retry:
    """How often and how soon. ``max_attempts`` counts the first one; ``jitter`` (0..1) spreads a delay by that share
    both ways."""

    max_attempts: int = 1
    backoff: Literal["fixed", "linear", "exponential"] = "fixed"
    delay_seconds: float = 1.0
    max_delay_seconds: float = 3600.0
    jitter: float = 0.0
    retry_on: frozenset[str] | None = None

    def delay(
        self, attempt: int, *, code: str, retryable: bool, chance: float, retry_after: float | None = None
    ) -> float | None:
        """Seconds to wait after ``attempt`` (from 1) failed with ``code``, or None to give up.

        ``chance`` (0..1) picks the place in the band of jitter. The cap applies after jitter. ``retry_on`` names the
        only codes that are tried again; without it every failure is that calls itself retryable. What failed may ask
        for no other try before ``retry_after`` seconds: it is heard, up to the cap.
        """
        wanted = retryable if self.retry_on is None else code in self.retry_on
        if attempt >= self.max_attempts or not wanted:
            return None
        factor = {
            "fixed": 1.0,
            "linear": float(attempt),
            "exponential": 2.0 ** min(attempt - 1, 64),
        }
        spread = 1 + self.jitter * (2 * chance - 1)
        wait = max(self.delay_seconds * factor[self.backoff] * spread, retry_after or 0.0)
        return min(wait, self.max_delay_seconds)


ONCE = Retry()
"""No second attempt."""
