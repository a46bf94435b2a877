"""Environments and connections that come with the environment of the process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flo.engine.environments.entries import Entry, folded, is_name, misnamed
from flo.engine.environments.marking import entered
from flo.engine.environments.reading import read_discreetly
from flo.engine.errors import InputInvalid
from flo.engine.frozen import frozen
from flo.engine.secrecy import Secret
from flo.engine.values import storable

PLAIN: Final = "FLO_ENV_"
SECRET: Final = "FLO_SECRET_"
CONNECTION: Final = "FLO_CONNECTION_"


@frozen
class Given:
    """What a process was started with: values of every environment, and connections by their folded name."""

    values: Mapping[str, Entry]
    connections: Mapping[str, Entry]


def from_process(process: Mapping[str, str]) -> Given:
    """``FLO_ENV_X`` and ``FLO_SECRET_X`` are texts, ``FLO_CONNECTION_X`` is a JSON object. Raises ``InputInvalid`` that
    names the variable."""
    values: dict[str, Entry] = {}
    connections: dict[str, Entry] = {}
    for variable in sorted(process):
        for prefix in (PLAIN, SECRET, CONNECTION):
            if not variable.startswith(prefix):
                continue
            name = variable.removeprefix(prefix)
            if not is_name(name):
                raise InputInvalid(variable, misnamed(name))
            if prefix == CONNECTION:
                _add(connections, folded(name), _connection(variable, process[variable]))
            else:
                _add(values, name, _text(variable, process[variable], secret=prefix == SECRET))
    return Given(values, connections)


def _add(entries: dict[str, Entry], name: str, entry: Entry) -> None:
    if name in entries:
        other = entries[name].origin
        raise InputInvalid(entry.origin, f"{other} names the same; unset one of them")
    entries[name] = entry


def _text(variable: str, text: str, *, secret: bool) -> Entry:
    if storable(text) != text:
        raise InputInvalid(variable, "it is no UTF-8")
    if secret:
        return Entry({"secret": text}, Secret(text), variable, variable)
    return Entry(text, text, variable, variable)


def _connection(variable: str, text: str) -> Entry:
    raw, _ = read_discreetly(text, variable)
    return Entry(raw, entered(raw, connection=True, source=variable), variable, variable)
