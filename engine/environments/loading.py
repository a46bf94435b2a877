"""Environments and connections as a run sees them: what lies nearest to the process wins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from flo.engine.environments.entries import DEFAULT, Entry, Written, folded
from flo.engine.environments.files import SettingsFile
from flo.engine.environments.marking import concealed
from flo.engine.environments.process import Given, from_process
from flo.engine.environments.resolving import Resolver
from flo.engine.environments.table import ORIGIN, Opener
from flo.engine.errors import InputInvalid, NotFound, StepFailed
from flo.engine.frozen import frozen
from flo.engine.hiding import has_secret
from flo.engine.sealing import Keys, SealBroken
from flo.engine.stores.settings import Kind, Setting, SettingStore
from flo.engine.values import Json, JsonObject

Held = Entry | Setting
"""A value, or the row of the table in which it is sealed."""


@frozen
class Loaded:
    """What a run may use: ``env`` is ``$env``, ``connections`` is ``$connections``. What is secret is marked."""

    env: JsonObject
    connections: Connections

    def copy(self) -> Loaded:
        """The same, sharing nothing that could be changed."""
        return Loaded(_copied_object(self.env), self.connections.copy())


@frozen
class Described:
    """A value of an environment, or a connection, as people may see it. ``value`` has ``***`` for secrets; it is null
    where ``problem`` says why there is none. ``origin`` is what it comes from: ``FLO_ENV_X``, the file, ``store``."""

    name: str
    value: Json
    origin: str
    secret: bool
    problem: str | None = None

    def as_json(self) -> JsonObject:
        """``name value secret source``, and ``problem`` where there is one."""
        said: JsonObject = {} if self.problem is None else {"problem": self.problem}
        return {"name": self.name, "value": self.value, "secret": self.secret, "source": self.origin, **said}


class Connections(Mapping[str, JsonObject]):
    """Connections by name. One of ``FLO_CONNECTION_…`` is found by every spelling of its name. One that cannot be had
    in this environment is not counted, and fails the step that asks for it: others need not suffer from it."""

    def __init__(
        self, sound: Mapping[str, JsonObject], given: Mapping[str, JsonObject], broken: Mapping[str, str]
    ) -> None:
        self._sound, self._given, self._broken = sound, given, broken

    def __getitem__(self, name: str) -> JsonObject:
        if name in self._sound:
            return self._sound[name]
        key = folded(name)
        if key in self._given:
            return self._given[key]
        if said := self._broken.get(name) or self._broken.get(key):
            raise StepFailed(f"connection {name!r}: {said}", code="invalid_connection", retryable=False)
        raise KeyError(name)

    def copy(self) -> Connections:
        """The same, sharing nothing that could be changed."""
        sound, given = (
            {name: _copied_object(held) for name, held in each.items()} for each in (self._sound, self._given)
        )
        return Connections(sound, given, self._broken)

    def __iter__(self) -> Iterator[str]:
        yield from self._sound
        yield from self._given

    def __len__(self) -> int:
        return len(self._sound) + len(self._given)


@frozen
class _Found:
    """What there is for one environment, by name: values of it, and connections."""

    values: Mapping[str, Held]
    connections: Mapping[str, Held]


class Environments:
    """What the owner of the engine set up, wherever it lies: in the environment of the process, in a settings file, in
    the encrypted table. Safe to use from many threads.

    ``keys`` gives the master keys of the table, None where there are none. ``file`` is the settings file; it must be
    there. Both, and the table, are looked at anew for each run; ``process`` is taken as it is now.
    """

    def __init__(
        self,
        table: SettingStore | None,
        keys: Callable[[], Keys | None],
        file: Path | None,
        process: Mapping[str, str],
    ) -> None:
        self._table, self._process = table, dict(process)
        self._opener = Opener(keys)
        self._resolved: dict[str, tuple[_Found, Loaded]] = {}
        """By name, what an environment was made of the last time, and what became of it."""
        self._file = None if file is None else SettingsFile(file)

    def load(self, name: str | None = None) -> Loaded:
        """The environment of a run, None for ``default``, which need not exist, and the connections.

        Raises ``NotFound`` for one that is nowhere, ``InputInvalid`` that names file, line and column, or variable, or
        row, ``SealBroken``, ``StoreError``.
        """
        found = self._find(name or DEFAULT)
        before = self._resolved.get(name or DEFAULT)
        if before is None or before[0] != found:
            before = self._resolved[name or DEFAULT] = found, self._load(found)
        return before[1].copy()

    def known(self) -> Sequence[str]:
        """The names of the environments, in order; ``default`` is always one."""
        rows = () if self._table is None else self._table.find("environment")
        return sorted({DEFAULT, *self._written().environments, *(row.owner for row in rows)})

    def describe(self, name: str | None = None) -> Sequence[Described]:
        """The values of an environment, by name. Raises ``NotFound``; what is wrong with one value stands beside it."""
        entries: dict[str, Entry] = {}
        found: dict[str, Described] = {}
        for key, held in self._find(name or DEFAULT).values.items():
            try:
                entries[key] = self._entry(held)
            except (InputInvalid, SealBroken) as error:
                found[key] = Described(key, None, ORIGIN, True, str(error))
        resolver = Resolver(entries, self._process)
        for key, entry in entries.items():
            try:
                value = resolver.value(key)
            except InputInvalid as error:
                found[key] = Described(key, None, entry.origin, has_secret(entry.value), str(error))
            else:
                found[key] = Described(key, concealed(entry.raw, value), entry.origin, has_secret(value))
        return [found[key] for key in sorted(found)]

    def describe_connections(self) -> Sequence[Described]:
        """The connections as they were written, templates and all, by name."""
        found = []
        for key, held in self._find(DEFAULT).connections.items():
            try:
                entry = self._entry(held)
            except (InputInvalid, SealBroken) as error:
                found.append(Described(key, None, ORIGIN, True, str(error)))
            else:
                found.append(Described(key, concealed(entry.raw, entry.value), entry.origin, has_secret(entry.value)))
        return sorted(found, key=lambda each: each.name)

    def nearer(self, kind: Kind, owner: str, name: str = "") -> str | None:
        """Where a value comes from, or a connection, that wins over the one of the table; None where nothing does."""
        written, given = self._written(), self._given
        if kind == "environment":
            found = given.values.get(name) or written.environments.get(owner, {}).get(name)
        else:
            found = given.connections.get(folded(owner)) or written.connections.get(owner)
        return None if found is None else found.origin

    def warnings(self) -> Sequence[str]:
        """What an operator should look after: a file with secrets that others may read."""
        said = None if self._file is None else self._file.warning()
        return [] if said is None else [said]

    @cached_property
    def _given(self) -> Given:
        return from_process(self._process)

    def _written(self) -> Written:
        return Written() if self._file is None else self._file.read()

    def _find(self, name: str) -> _Found:
        """What there is for an environment, those that are nearer in the place of others: connections of variables
        under the names that they replace, else under their own. Raises ``NotFound``."""
        written, given = self._written(), self._given
        rows = () if self._table is None else self._table.find("environment", name)
        if name != DEFAULT and not rows and name not in written.environments:
            raise NotFound("environment", name, self.known())
        values: Mapping[str, Held] = {
            **{row.name: row for row in rows},
            **written.environments.get(name, {}),
            **given.values,
        }
        connection_rows = () if self._table is None else self._table.find("connection")
        named: dict[str, Held] = {**{row.owner: row for row in connection_rows}, **written.connections}
        replaced = {key: given.connections.get(folded(key), held) for key, held in named.items()}
        more = {key: entry for key, entry in given.connections.items() if key not in set(map(folded, named))}
        return _Found(values, {**replaced, **more})

    def _entry(self, held: Held) -> Entry:
        return held if isinstance(held, Entry) else self._opener.open(held)

    def _load(self, found: _Found) -> Loaded:
        resolver = Resolver({key: self._entry(held) for key, held in found.values.items()}, self._process)
        env = resolver.env()
        sound: dict[str, JsonObject] = {}
        given: dict[str, JsonObject] = {}
        broken: dict[str, str] = {}
        for key, held in found.connections.items():
            try:
                value = resolver.entry(self._entry(held))
            except (InputInvalid, SealBroken) as error:
                broken[key] = str(error)
                continue
            assert isinstance(value, Mapping)
            (given if self._given.connections.get(key) is held else sound)[key] = value
        return Loaded(env, Connections(sound, given, broken))


def _copied(value: Json) -> Json:
    """The same value in lists and objects of its own: nothing that a step does to them reaches another run."""
    match value:
        case dict():
            return {key: _copied(held) for key, held in value.items()}
        case list():
            return [_copied(held) for held in value]
    return value


def _copied_object(value: JsonObject) -> JsonObject:
    return {key: _copied(held) for key, held in value.items()}
