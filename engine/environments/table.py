"""The encrypted table: values of environments and connections that the store keeps, sealed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from flo.engine.environments.entries import Entry, check_name
from flo.engine.environments.keyring import Keyring
from flo.engine.environments.marking import entered
from flo.engine.environments.resolving import check
from flo.engine.errors import FloError, InputInvalid
from flo.engine.frozen import frozen
from flo.engine.sealing import KEY_VARIABLE, Keys, SealBroken
from flo.engine.stores.settings import Kind, Setting, SettingStore
from flo.engine.values import Json, dump, plain

ORIGIN: Final = "store"
"""Where a value of the table comes from, in lists."""

MAX_CHARACTERS: Final = 1024 * 1024
"""One value, or one connection, has at most so many characters as JSON."""

_KEPT: Final = 1000
_PASSES: Final = 20


class Opener:
    """Opens what the table holds. What was opened is kept in memory, by what is sealed."""

    def __init__(self, keys: Callable[[], Keys | None]) -> None:
        self._keys = keys
        self._opened: dict[tuple[str, str], Entry] = {}

    def open(self, setting: Setting) -> Entry:
        """The value of a row. Raises ``SealBroken`` that names the row, never what is in it."""
        about = place_of(setting.kind, setting.owner, setting.name)
        if (entry := self._opened.get((about, setting.sealed))) is not None:
            return entry
        keys = self._keys()
        if keys is None:
            raise SealBroken(about, f"{KEY_VARIABLE} is not set here, and no key file lies beside the store")
        raw = keys.open(setting.sealed, about=about)
        source = f"{about} in the store"
        entry = Entry(raw, entered(raw, connection=setting.kind == "connection", source=source), ORIGIN, source)
        if len(self._opened) >= _KEPT:
            self._opened.clear()
        self._opened[about, setting.sealed] = entry
        return entry


@frozen
class Rotated:
    """How many values were sealed anew, and how many the first key had sealed already."""

    anew: int
    current: int


def place_of(kind: Kind, owner: str, name: str = "") -> str:
    """What a row is called, and what its value is sealed for: nobody can move it to another row."""
    return f"{kind} {owner} {name}".rstrip()


def keep(table: SettingStore, keyring: Keyring, kind: Kind, owner: str, name: str, raw: Json) -> None:
    """Seal a value and store it, in place of the one of the same name. Raises ``InputInvalid``, ``ValueRefused``,
    ``SealBroken``; the master key of an embedded store is made here, if there is none."""
    check_name(kind, owner)
    if kind == "environment":
        check_name("value", name)
    about = place_of(kind, owner, name)
    raw = plain(raw)
    check(Entry(raw, entered(raw, connection=kind == "connection", source=about), ORIGIN, about))
    if (characters := len(dump(raw))) > MAX_CHARACTERS:
        raise InputInvalid(about, f"it has {characters:,} characters as JSON, the limit is {MAX_CHARACTERS:,}")
    keys = keyring.for_sealing(lambda: bool(table.find("environment") or table.find("connection")))
    table.put(kind, owner, name, keys.seal(raw, about=about))


def rotate(table: SettingStore, keys: Keys) -> Rotated:
    """Seal everything anew with the first key, while others write.

    Everything is opened before the first row is written: where one cannot be (``SealBroken``), nothing is changed. A
    row that somebody writes meanwhile is looked at again. It may be broken off at any moment and be run again.
    """
    anew: set[tuple[Kind, str, str]] = set()
    for _ in range(_PASSES):
        rows = [*table.find("environment"), *table.find("connection")]
        older = [row for row in rows if not keys.is_current(row.sealed)]
        for row in rows:  # also what is current: a row that was moved here is told, not kept
            keys.open(row.sealed, about=place_of(row.kind, row.owner, row.name))
        if not older:
            return Rotated(len(anew), sum((row.kind, row.owner, row.name) not in anew for row in rows))
        for row in older:
            about = place_of(row.kind, row.owner, row.name)
            if table.reseal(row, keys.seal(keys.open(row.sealed, about=about), about=about)):
                anew.add((row.kind, row.owner, row.name))
    raise FloError(
        "other programs go on sealing with another master key: put the new key first wherever they run, then rotate"
        " again"
    )
