"""When to try again: attempts, kinds of backoff, cap after jitter, codes."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flo.engine.retry import ONCE, Retry


def delays(retry: Retry, chance: float = 0.5) -> list[float | None]:
    return [
        retry.delay(attempt, code="x", retryable=True, chance=chance) for attempt in range(1, retry.max_attempts + 1)
    ]


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        ("fixed", [2.0, 2.0, 2.0, 2.0, None]),
        ("linear", [2.0, 4.0, 6.0, 8.0, None]),
        ("exponential", [2.0, 4.0, 8.0, 10.0, None]),
    ],
)
def test_backoff_grows_as_its_kind_says_up_to_the_cap(
    backoff: Literal["fixed", "linear", "exponential"], expected: list[float | None]
) -> None:
    assert delays(Retry(5, backoff, delay_seconds=2, max_delay_seconds=10)) == expected


def test_once_means_once() -> None:
    assert ONCE.delay(1, code="x", retryable=True, chance=0.5) is None


def test_a_failure_that_is_not_retryable_is_not_tried_again_unless_its_code_is_named() -> None:
    assert Retry(3).delay(1, code="x", retryable=False, chance=0.5) is None
    assert Retry(3, retry_on=frozenset({"x"})).delay(1, code="x", retryable=False, chance=0.5) == 1.0
    assert Retry(3, retry_on=frozenset({"y"})).delay(1, code="x", retryable=True, chance=0.5) is None


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 10_000))
def test_a_delay_lies_in_its_band_and_never_past_the_cap(jitter: float, chance: float, attempt: int) -> None:
    retry = Retry(20_000, "exponential", delay_seconds=1, max_delay_seconds=60, jitter=jitter)
    delay = retry.delay(attempt, code="x", retryable=True, chance=chance)
    assert delay is not None
    base = 2.0 ** min(attempt - 1, 64)
    assert min(base * (1 - jitter), 60) - 1e-9 <= delay <= min(base * (1 + jitter), 60) + 1e-9


@pytest.mark.parametrize(("asked", "delay"), [(None, 2.0), (0.0, 2.0), (1.0, 2.0), (7.5, 7.5), (99_999.0, 10.0)])
def test_what_failed_may_ask_for_more_time_up_to_the_cap(asked: float | None, delay: float) -> None:
    retry = Retry(3, delay_seconds=2, max_delay_seconds=10, jitter=0.5)
    assert retry.delay(1, code="x", retryable=True, chance=0.5, retry_after=asked) == delay


def test_time_that_was_asked_for_gives_no_attempt_more() -> None:
    assert Retry(3).delay(3, code="x", retryable=True, chance=0.5, retry_after=5.0) is None
    assert Retry(3).delay(1, code="x", retryable=False, chance=0.5, retry_after=5.0) is None
