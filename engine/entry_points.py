"""The entry points of what is installed: the same that ``importlib.metadata`` finds, mostly without its import."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from typing import Final

from flo.engine.errors import FloError, worded

_SEPARATORS: Final = re.compile(r"[_.]+")


def entry_points(group: str) -> Sequence[str]:
    """The values of a group, ``module`` or ``module:attribute``, in the order of ``sys.path``.

    To look into its folders takes a tenth of the time that the import of ``importlib.metadata`` does. That is asked
    where they do not say all: of archives, eggs, finders of others, and names or files that are no proper ones. Raises
    ``FloError`` where it cannot read them.
    """
    try:
        return _in_folders(group)
    except _Unsure:
        from importlib import metadata

        try:
            return [entry.value for entry in metadata.entry_points(group=group)]
        except Exception as error:  # of a file that is damaged, which it does not name
            said = f"an entry_points.txt among the installed distributions is damaged: {worded(error)}"
            raise FloError(f"{said}; without it nobody can say which step types there are") from error


class _Unsure(Exception):
    """``importlib.metadata`` may find something else."""


def _in_folders(group: str) -> Sequence[str]:
    if [finder for finder in sys.meta_path if getattr(finder, "find_distributions", None)] != [PathFinder]:
        raise _Unsure
    found: dict[str, Sequence[str]] = {}
    for folder in dict.fromkeys(sys.path):
        for name, directory in _distributions(folder):
            if name not in found:  # the first one of a name hides the others
                found[name] = _values(os.path.join(directory, "entry_points.txt"), group)
    return [value for values in found.values() for value in values]


def _distributions(folder: str) -> Iterator[tuple[str, str]]:
    """The distributions in a folder: their names, in one spelling, and where their metadata lie."""
    if not isinstance(folder, str) or folder.lower().endswith(".egg"):
        raise _Unsure
    try:
        children = os.listdir(folder or ".")
    except NotADirectoryError:  # an archive
        raise _Unsure from None
    except (OSError, ValueError):
        return
    for child in children:
        if child.lower().endswith((".dist-info", ".egg-info")):
            stem, ending = os.path.splitext(child)
            name = stem.partition("-")[0]
            if not name or not ending.islower():
                raise _Unsure
            yield _SEPARATORS.sub("_", name).lower(), os.path.join(folder, child)


def _values(file: str, group: str) -> Sequence[str]:
    """What a file says of a group."""
    try:
        with open(file, "rb") as opened:
            data = opened.read()
    except OSError:
        return ()
    if group.encode() not in data:
        return ()
    try:
        lines = [line.strip() for line in data.decode().splitlines()]
    except UnicodeDecodeError:
        raise _Unsure from None
    values: list[str] = []
    section = None
    for line in lines:
        if line.startswith("[") and line.endswith("]"):
            section = line.strip("[]")
        elif section == group and line and not line.startswith("#"):
            _, equals, value = line.partition("=")
            if not equals:
                raise _Unsure
            values.append(value.strip())
    return values
