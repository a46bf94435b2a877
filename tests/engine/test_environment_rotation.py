"""Rotating master keys seals every value of the table anew, and loses none that somebody writes meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from flo.engine.environments.keyring import Keyring
from flo.engine.environments.table import Rotated, keep, place_of, rotate
from flo.engine.errors import FloError
from flo.engine.sealing import KEY_VARIABLE, Keys, SealBroken, new_key
from flo.engine.stores.settings import Kind, Setting, SettingStore
from flo.engine.stores.store import Store

from .environment_world import NEW, OLD, filled, on


def sealed_with(table: SettingStore, key: str) -> list[bool]:
    keys = Keys([key], "test")
    return [keys.is_current(row.sealed) for kind in KINDS for row in table.find(kind)]


KINDS: Sequence[Kind] = ("environment", "connection")


def test_rotating_seals_all_anew_with_the_first_key(store: Store) -> None:
    table = store.settings
    filled(table, OLD)
    keep(table, Keyring({KEY_VARIABLE: NEW}), "environment", "prod", "C", "new")
    both = Keys([NEW, OLD], "test")
    assert rotate(table, both) == Rotated(anew=3, current=1)
    assert sealed_with(table, NEW) == [True] * 4
    assert on(table, NEW).load("prod").env == {"A": "hunter2-A", "B": "hunter2-B", "C": "new"}
    assert on(table, NEW).load().connections["stripe"] == {"token": "hunter2-c"}
    assert rotate(table, both) == rotate(table, Keys([NEW], "test")) == Rotated(anew=0, current=4)


def test_where_something_cannot_be_opened_nothing_is_sealed_anew(store: Store) -> None:
    filled(store.settings, OLD)
    keep(store.settings, Keyring({KEY_VARIABLE: new_key()}), "environment", "prod", "Z", "lost")
    before = [store.settings.find(kind) for kind in KINDS]
    with pytest.raises(SealBroken, match=r"^environment prod Z cannot be opened"):
        rotate(store.settings, Keys([NEW, OLD], "test"))
    assert [store.settings.find(kind) for kind in KINDS] == before


class Meddled:
    """A table to which somebody writes whenever a value is about to be sealed anew, ``often`` times."""

    def __init__(self, table: SettingStore, often: int) -> None:
        self._table, self._left = table, often
        self.put, self.remove, self.find = table.put, table.remove, table.find

    def reseal(self, old: Setting, sealed: str) -> bool:
        if self._left:
            self._left -= 1
            other = Keys([OLD, NEW], "test").seal(f"other {self._left}", about=place_of("environment", "prod", "A"))
            self._table.put("environment", "prod", "A", other)
            self._table.remove("environment", "prod", "B")
        return self._table.reseal(old, sealed)


def test_what_somebody_writes_while_keys_rotate_is_neither_lost_nor_left(store: Store) -> None:
    filled(store.settings, OLD)
    rotated = rotate(Meddled(store.settings, 3), Keys([NEW, OLD], "test"))
    assert rotated == Rotated(anew=2, current=0)
    assert on(store.settings, NEW).load("prod").env == {"A": "other 0"}
    assert sealed_with(store.settings, NEW) == [True, True]


def test_who_goes_on_with_the_old_key_is_told_of(store: Store) -> None:
    filled(store.settings, OLD)
    with pytest.raises(FloError, match="other programs go on sealing with another master key"):
        rotate(Meddled(store.settings, 1000), Keys([NEW, OLD], "test"))


def test_rotations_and_writers_at_once_leave_the_last_value_of_each(store: Store) -> None:
    table, ring = store.settings, Keyring({KEY_VARIABLE: f"{NEW},{OLD}"})
    names = ("A", "B", "C")
    for name in names:
        keep(table, Keyring({KEY_VARIABLE: OLD}), "environment", "prod", name, "0")
    begin = threading.Barrier(len(names) + 2)
    failed: list[Exception] = []

    def run(work: Any) -> None:
        begin.wait()
        try:
            work()
        except Exception as error:
            failed.append(error)

    def write(name: str) -> None:
        for number in range(1, 11):
            keep(table, ring, "environment", "prod", name, str(number))

    works = [lambda name=name: write(name) for name in names]
    works += [lambda: rotate(table, Keys([NEW, OLD], "test"))] * 2  # type: ignore[list-item]
    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert on(table, NEW).load("prod").env == dict.fromkeys(names, "10")
    assert sealed_with(table, NEW) == [True] * 3
