"""Pieces of work in one thread, of which the others go on while one waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar

import pytest

from flo.engine.abreast import Crew, OthersFailed, abreast, crew


def us() -> Crew:
    found = crew()
    assert found is not None
    return found


def of(pieces: int, run: Callable[[int], object]) -> Callable[[], bool]:
    """Runs so many pieces, each by its number."""
    left = iter(range(pieces))

    def work() -> bool:
        number = next(left, None)
        if number is None:
            return False
        run(number)
        return True

    return work


@pytest.mark.parametrize(
    ("width", "told"),
    [
        (1, ["0", "-0", "1", "-1", "2", "-2", "3", "-3"]),
        (2, ["0", "1", "-0", "2", "-1", "3", "-2", "-3"]),
        (3, ["0", "1", "2", "-0", "3", "-1", "-2", "-3"]),
        (9, ["0", "1", "2", "3", "-0", "-1", "-2", "-3"]),
    ],
)
def test_others_go_on_while_one_waits(width: int, told: list[str]) -> None:
    seen: list[str] = []

    def run(number: int) -> None:
        seen.append(str(number))
        us().pass_on()
        seen.append(f"-{number}")

    abreast(of(4, run), width)
    assert seen == told


def test_who_never_waits_does_one_after_the_other() -> None:
    seen: list[int] = []
    abreast(of(4, seen.append), 3)
    assert seen == [0, 1, 2, 3]


def test_all_run_in_the_thread_that_asked() -> None:
    seen = set()

    def run(number: int) -> None:
        us().pass_on()
        seen.add(threading.get_ident())

    abreast(of(3, run), 3)
    assert seen == {threading.get_ident()}
    assert crew() is None


def test_one_that_fails_ends_the_others_where_they_are() -> None:
    seen: list[object] = []

    def run(number: int) -> None:
        try:
            us().pass_on()
            if number == 1:
                raise LookupError("the first one")
            us().pass_on()
        except BaseException as error:
            seen.append((number, type(error)))
            raise
        finally:
            seen.append(number)

    with pytest.raises(LookupError, match="the first one"):
        abreast(of(9, run), 3)
    assert seen == [(1, LookupError), 1, (2, OthersFailed), 2, (0, OthersFailed), 0]
    assert crew() is None


def test_the_end_gets_past_who_handles_exceptions() -> None:
    seen: list[str] = []

    def run(number: int) -> None:
        if number == 1:
            raise LookupError
        try:
            us().pass_on()
        except Exception:
            seen.append("handled")
        seen.append("went on")

    with pytest.raises(LookupError):
        abreast(of(2, run), 2)
    assert seen == []


def test_who_takes_no_notice_of_the_end_cannot_wait_again() -> None:
    seen: list[str] = []

    def run(number: int) -> None:
        if number == 1:
            raise LookupError
        for _ in range(2):
            try:
                us().waits_for("a session")
                us().pass_on()
            except OthersFailed:
                seen.append("over")
        seen.append("went on")

    with pytest.raises(LookupError):
        abreast(of(2, run), 2)
    assert seen == ["over", "over", "went on"]


def test_others_go_on_only_for_what_all_of_them_wait_for() -> None:
    seen: list[bool] = []

    def run(number: int) -> None:
        seen.extend((us().waits_for("the session"), us().waits_for("another one")))
        us().pass_on()

    abreast(of(2, run), 2)
    assert seen == [True, False] * 2


def test_each_has_the_context_of_who_asked_and_its_own_changes() -> None:
    variable = ContextVar("variable", default="none")
    variable.set("asked")
    seen = []

    def run(number: int) -> None:
        seen.append(variable.get())
        variable.set(f"of {number}")
        us().pass_on()
        seen.append(variable.get())

    abreast(of(2, run), 2)
    assert seen == ["asked", "asked", "of 0", "of 1"]
    assert variable.get() == "asked"
