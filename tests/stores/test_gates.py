"""Gates: what the limits of queues and of concurrency keys let through, by counts alone."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from flo.engine.jobs import Limits
from flo.engine.stores.gates import Gates


def gates(
    limits: Limits | None = None,
    running: Mapping[tuple[str, str | None], int] | None = None,
    starts: Mapping[tuple[str, str], int] | None = None,
) -> Gates:
    """Gates over the queue ``mail``, and over others without limits."""
    return Gates({} if limits is None else {"mail": limits}, running or {}, starts or {})


def admitted(of: Gates, queue: str, key: str | None, limit: int | None, tries: int = 10) -> int:
    """How many of ``tries`` get through."""
    return sum(of.admits(queue, key, limit) for _ in range(tries))


def test_without_limits_and_keys_everything_runs() -> None:
    assert admitted(gates(running={("mail", None): 1_000}), "mail", None, None) == 10


def test_a_queue_runs_as_many_as_its_limit() -> None:
    assert admitted(gates(Limits(running=3)), "mail", None, None) == 3


def test_what_runs_in_a_queue_counts_with_any_key_and_none() -> None:
    running = {("mail", None): 1, ("mail", "a"): 1, ("other", None): 5}
    assert admitted(gates(Limits(running=4), running), "mail", None, None) == 2


def test_the_limit_of_a_queue_is_not_that_of_another() -> None:
    of = gates(Limits(running=1))
    assert (admitted(of, "mail", None, None), admitted(of, "other", None, None)) == (1, 10)


def test_a_limit_of_none_running_lets_nothing_through() -> None:
    assert admitted(gates(Limits(running=0)), "mail", "a", 5) == 0


def test_a_key_without_a_limit_runs_one_at_a_time() -> None:
    of = gates()
    assert (admitted(of, "mail", "a", None), admitted(of, "mail", "b", None)) == (1, 1)


def test_what_has_no_key_is_not_bound_by_a_keys_limit() -> None:
    assert admitted(gates(running={("mail", "a"): 1}), "mail", None, 1) == 10


def test_the_limit_of_a_key_holds_over_all_queues_and_what_no_queue_delivers() -> None:
    of = gates(running={("mail", "a"): 1, ("other", "a"): 1, ("", "a"): 1, ("other", "b"): 7})
    assert (admitted(of, "third", "a", 5), admitted(of, "third", "b", 7)) == (2, 0)


def test_the_limit_is_that_of_the_execution_which_asks() -> None:
    of = gates()
    assert [of.admits("mail", "a", limit) for limit in (1, 1, 2, 1, 3, None)] == [True, False, True, False, True, False]


def test_the_limit_of_a_queue_for_each_key_holds_beside_the_keys_own() -> None:
    limits = Limits(running_per_key=2)
    assert admitted(gates(limits), "mail", "a", 5) == 2
    assert admitted(gates(limits), "mail", "a", 1) == 1
    assert admitted(gates(limits), "mail", None, None) == 10


def test_the_limit_of_a_queue_for_each_key_counts_that_queue_alone() -> None:
    running = {("mail", "a"): 1, ("mail", "b"): 2, ("other", "a"): 3}
    assert admitted(gates(Limits(running_per_key=2), running), "mail", "a", 9) == 1


def test_a_key_starts_as_often_as_its_rate_allows() -> None:
    limits = Limits(starts_per_key=3, per_key_seconds=60.0)
    of = gates(limits, starts={("mail", "a"): 1, ("other", "b"): 5})
    assert [admitted(of, "mail", key, 99) for key in ("a", "b")] == [2, 3]
    assert admitted(of, "mail", None, None) == 10
    assert admitted(of, "other", "b", 99) == 10


@pytest.mark.parametrize("limits", [Limits(starts_per_key=1), Limits(per_key_seconds=60.0)])
def test_half_a_rate_is_none(limits: Limits) -> None:
    of = gates(limits, starts={("mail", "a"): 5})
    assert not of.too_fast("mail", "a")
    assert admitted(of, "mail", "a", 99) == 10


def test_whether_time_alone_opens_a_gate_is_told() -> None:
    limits = Limits(running_per_key=1, starts_per_key=2, per_key_seconds=1.0)
    of = gates(limits, starts={("mail", "slow"): 2})
    assert (of.too_fast("mail", "slow"), of.full("mail", "slow", 9)) == (True, True)
    assert of.admits("mail", "busy", 9)
    assert (of.too_fast("mail", "busy"), of.full("mail", "busy", 9)) == (False, True)
    assert not of.too_fast("mail", None)
    assert not of.too_fast("other", "slow")


def test_asking_whether_a_gate_is_full_counts_nothing() -> None:
    of = gates(Limits(running=1, running_per_key=1, starts_per_key=1, per_key_seconds=1.0))
    assert not any(of.full("mail", "a", 1) for _ in range(3))
    assert of.admits("mail", "a", 1)
    assert of.full("mail", "a", 1)


def test_what_is_turned_away_takes_nobodys_place() -> None:
    of = gates(Limits(running=2))
    assert [of.admits("mail", key, None) for key in ("a", "a", "a", "b", "c")] == [True, False, False, True, False]


def test_the_counts_that_were_given_stay_as_they_were() -> None:
    running: dict[tuple[str, str | None], int] = {("mail", "a"): 1}
    starts = {("mail", "a"): 1}
    assert gates(Limits(running=5), running, starts).admits("mail", "a", 5)
    assert (running, starts) == ({("mail", "a"): 1}, {("mail", "a"): 1})
