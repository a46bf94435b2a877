"""The settings file: environments and connections as JSON."""

from __future__ import annotations

import os
import stat
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from flo.engine.environments.entries import Entry, Written, is_name, misnamed
from flo.engine.environments.marking import as_connection, as_written
from flo.engine.environments.reading import read_discreetly
from flo.engine.errors import InputInvalid, did_you_mean
from flo.engine.hiding import secrets_in
from flo.engine.language.marks import has_marks
from flo.engine.positions import positions
from flo.engine.values import Json, Place, kind_of, place_text

FILE_VARIABLE: Final = "FLO_SETTINGS"
FILE_NAME: Final = "flo.settings.json"
_FIELDS: Final = ("environments", "connections")
_OTHERS: Final = stat.S_IRGRP | stat.S_IROTH
_HARMLESS: Final = frozenset({"type", "name", "in", "username"})
"""Texts of connections that are hidden like all of them, and that anybody may read."""


def find_file(process: Mapping[str, str], folder: Path) -> Path | None:
    """The settings file: what ``FLO_SETTINGS`` names, there or not, else ``flo.settings.json`` if the folder has it."""
    if named := process.get(FILE_VARIABLE):
        return folder / named
    usual = folder / FILE_NAME
    return usual if usual.is_file() else None


class SettingsFile:
    """A settings file. It is looked at each time, and read anew when it has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name if path.parent in (Path(), Path.cwd()) else str(path)
        self._read: tuple[tuple[int, ...], Written] | None = None

    def read(self) -> Written:
        """What it holds. Raises ``InputInvalid`` with line and column, where it is not there too."""
        try:
            found = os.stat(self.path)
            state = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
            if self._read is None or self._read[0] != state:
                self._read = state, parse_settings(self.path.read_bytes(), self.name)
        except FileNotFoundError:
            raise InputInvalid(self.name, f"there is no such file{self._nearest()}") from None
        except OSError as error:
            raise InputInvalid(self.name, f"it cannot be read: {error.strerror}") from error
        return self._read[1]

    def warning(self) -> str | None:
        """What to say of a file with secrets that others on the machine may read."""
        if os.name != "posix" or not os.stat(self.path).st_mode & _OTHERS:
            return None
        written = self.read()
        values = [entry.value for held in written.environments.values() for entry in held.values()]
        if not any(_is_written_out(value) for value in [*values, *(e.value for e in written.connections.values())]):
            return None
        return f"{self.name} holds secrets, and others on this machine may read it: chmod 600 {self.name}"

    def _nearest(self) -> str:
        folder = self.path.parent
        return did_you_mean(self.path.name, (held.name for held in folder.iterdir()) if folder.is_dir() else ())


def _is_written_out(value: Json, key: str = "") -> bool:
    """Whether a secret stands there as it is, not only where it is to be had from."""
    if isinstance(value, Mapping):
        return any(_is_written_out(held, name) for name, held in value.items())
    if isinstance(value, list):
        return any(_is_written_out(held, key) for held in value)
    return key not in _HARMLESS and any(not has_marks(secret) for secret in secrets_in(value))


def parse_settings(data: bytes, source: str) -> Written:
    """Read the content of a settings file, which is called ``source``. Raises ``InputInvalid``."""
    value, text = read_discreetly(data, source)
    reader = _Reader(source, text)
    document = reader.object(value, ())
    for name in document:
        if name not in _FIELDS:
            hint = did_you_mean(name, _FIELDS) or f"; there are {' and '.join(_FIELDS)}"
            raise reader.refused((name,), f"unknown field {name!r}{hint}")
    environments = {
        name: dict(reader.values(held, ("environments", name)))
        for name, held in reader.named(document.get("environments", {}), ("environments",))
    }
    return Written(environments, dict(reader.connections(document.get("connections", {}), ("connections",))))


class _Reader:
    """Turns parts of one file into entries, and says where what is wrong stands."""

    def __init__(self, source: str, text: str) -> None:
        self._source = source
        self._positions = positions(text)
        self._lines = [0, *(at + 1 for at, character in enumerate(text) if character == "\n")]

    def refused(self, place: Place, message: str) -> InputInvalid:
        return self._entry_at(place, None, None).refused(message)

    def object(self, value: Json, place: Place) -> Mapping[str, Json]:
        if not isinstance(value, dict):
            raise self.refused(place, f"it must be an object, {kind_of(value)} came")
        return value

    def named(self, value: Json, place: Place) -> Iterator[tuple[str, Json]]:
        """The fields of an object whose keys are names."""
        for name, held in self.object(value, place).items():
            if not is_name(name):
                raise self.refused((*place, name), misnamed(name))
            yield name, held

    def values(self, value: Json, place: Place) -> Iterator[tuple[str, Entry]]:
        for name, raw in self.named(value, place):
            yield name, self._entry(raw, (*place, name), connection=False)

    def connections(self, value: Json, place: Place) -> Iterator[tuple[str, Entry]]:
        for name, raw in self.named(value, place):
            yield name, self._entry(raw, (*place, name), connection=True)

    def _entry(self, raw: Json, place: Place, *, connection: bool) -> Entry:
        try:
            value = as_connection(raw) if connection else as_written(raw)
        except ValueError as error:
            raise self.refused(place, str(error)) from None
        return self._entry_at(place, raw, value)

    def _entry_at(self, place: Place, raw: Json, value: Json) -> Entry:
        position = self._positions[place]
        line = bisect_right(self._lines, position)
        column = position - self._lines[line - 1] + 1
        return Entry(raw, value, self._source, self._source, place_text(place), line, column)
