"""What one run may use of environments and connections, and what of it must not be kept or shown."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from itertools import chain
from typing import Final, Protocol, TypeVar

from flo.engine.errors import FloError, StepFailed, StoreError, did_you_mean
from flo.engine.frozen import frozen
from flo.engine.hiding import has_certain_secret, has_secret, secrets_in
from flo.engine.netting import EMPTY, SHORTEST, Net
from flo.engine.secrecy import HIDDEN, KEPT_KEY, Lost, Secret, is_kept_form
from flo.engine.secret_storage import SecretStorage
from flo.engine.values import Json, JsonObject, LazyList, dump

MAX_LEARNED: Final = 100
"""The net of a run has so many texts that are not of its environment; what comes later has its mark alone."""

Value = TypeVar("Value", bound=Json)

_KEPT_NETS: Final = 64
_CREDENTIAL: Final = re.compile(
    r"pass|secret|token|key|auth|cred|cookie|sign|cert|private|bearer|headers|params"
    r"|dsn|uri|connection.?string|^pat$|^pin$",
    re.IGNORECASE,
)
_ORDINARY: Final = frozenset({"type", "in", "name", "format", "scheme", "username", "user"})
"""What stands beside credentials in a connection: marked as all of it, and no text to be looked for everywhere."""


class Settings(Protocol):
    """What the owner of the engine set up, as one run sees it; what is secret in it is marked."""

    @property
    def env(self) -> JsonObject:
        """The values of the run's environment."""

    @property
    def connections(self) -> Mapping[str, JsonObject]:
        """The connections, by name."""


@frozen
class NoSettings:
    """Where nothing is set up."""

    env: JsonObject = field(default_factory=dict)
    connections: Mapping[str, JsonObject] = field(default_factory=dict)


class Vault:
    """The environment and the connections of one execution, loaded when something first refers to them.

    It knows the secrets that came into the run: ``net`` finds them in text, ``hide`` makes what may be stored of a
    value, ``open`` makes the value of that again. In a run that came across no secret these do nothing. Safe to use
    from many threads.
    """

    def __init__(self, load: Callable[[], Settings], storage: SecretStorage, *, begun: bool = False) -> None:
        """``begun``: an earlier delivery may have stored something of the execution."""
        self._load, self._storage = load, storage
        self._settings: Settings | None = None
        self._net = EMPTY
        self._learned: set[str] = set()
        self._met = 0
        self._nets: dict[frozenset[str], Net] = {}
        self._lock = threading.RLock()
        self.active = False
        """Whether the run came across something that may be secret."""
        self.lacking = begun
        """Whether there may be values in which a secret was lost."""

    @property
    def settings(self) -> Settings:
        """What was set up. Raises ``StepFailed`` (``invalid_environment``) where it cannot be had, ``StoreError``."""
        with self._lock:
            if self._settings is None:
                try:
                    loaded = self._load()
                except (StoreError, StepFailed):
                    raise
                except FloError as error:
                    raise StepFailed(str(error), code="invalid_environment", retryable=False) from error
                self._learn(secrets_in(loaded.env), most=None)
                self._settings, self.active = loaded, True
            return self._settings

    @property
    def roots(self) -> Mapping[str, Json]:
        """``$env`` and ``$connections``, for a scope."""
        return {"$env": _Root(lambda: self.settings.env), "$connections": _Met(self)}

    def __getitem__(self, name: str) -> Json:
        known = self.settings.env
        if name in known:
            return known[name]
        message = f"the environment has no {name!r}{did_you_mean(name, known)}"
        raise StepFailed(message, code="unknown_secret", retryable=False)

    def get(self, name: str, default: Json = None) -> Json:
        return self.settings.env.get(name, default)

    def connection(self, name: str) -> JsonObject:
        known = self.settings.connections
        if name not in known:
            message = f"there is no connection {name!r}{did_you_mean(name, known)}"
            raise StepFailed(message, code="unknown_connection", retryable=False)
        found = known[name]
        with self._lock:
            self._learn(_credentials(found), most=None)
        return found

    @property
    def net(self) -> Net:
        """What finds the secrets of the run in text."""
        return self._net

    def net_of(self, value: Json) -> Net:
        """The net of the run, and of the secrets in ``value`` besides: texts that were made of others."""
        return self.net_with(frozenset(secrets_in(value))) if self.active else self._net

    def net_with(self, more: frozenset[Secret | Lost]) -> Net:
        """The net of the run, and of these secrets besides."""
        if not more:
            return self._net
        with self._lock:
            if (known := self._nets.get(more)) is None:
                if len(self._nets) >= _KEPT_NETS:
                    self._nets.clear()
                known = self._nets[more] = Net(more, self._net)
            return known

    def holds_secret(self, value: Json, net: Net | None = None) -> bool:
        """Whether a value holds a secret: one with a mark, or a text of some length without. ``net`` is that of a
        step."""
        return self.active and (has_certain_secret(value) or (net or self._net).finds(value))

    def meet(self, value: Value) -> Value:
        """Take note of the secrets in a value that comes into the run."""
        if has_secret(value):
            with self._lock:
                self._learn(secrets_in(value))
                self.active = True
        return value

    def shown(self, value: Json) -> Json:
        """A value as people may see it."""
        if not self.active:
            return value
        if isinstance(value, LazyList):
            return _Shown(value, self.shown)
        if isinstance(value, Mapping) and any(isinstance(held, Mapping | LazyList) for held in value.values()):
            return {self._net.mask(key): self.shown(held) for key, held in value.items()}
        return self._net.shown(value)

    def hide(self, value: Json) -> Json:
        """What may be stored of a value."""
        return self._hidden(value) if self.active and (self._net.numbers or has_secret(value)) else value

    def open(self, value: Json, *, of: str | None = None) -> Json:
        """The value of which ``hide`` made this, in this execution or in the one called ``of``. Where a secret cannot
        be had any more ``Lost`` stands in its place."""
        if of is None and not (self.lacking or self.active):
            return value
        found: list[Json] = []
        opened = self._unhidden(value, of, found)
        if found:
            with self._lock:
                numbers = (Secret(dump(each)) for each in found if type(each) in (int, float))
                self._learn(chain(secrets_in(found), numbers))
                self.active = True
                self.lacking = self.lacking or any(type(each) is Lost for each in found)
        return opened

    def _unhidden(self, value: Json, of: str | None, found: list[Json]) -> Json:
        kind = type(value)
        if kind is dict:
            if KEPT_KEY in value and is_kept_form(value):  # type: ignore[operator, arg-type]
                found.append(opened := self._storage.take(value, of))  # type: ignore[arg-type]
                return opened
            return {key: self._unhidden(held, of, found) for key, held in value.items()}  # type: ignore[union-attr]
        if kind is list:
            return [self._unhidden(held, of, found) for held in value]  # type: ignore[union-attr]
        return value

    def _learn(self, secrets: Iterator[Secret | Lost], most: int | None = MAX_LEARNED) -> None:
        """Let the net look for more texts, so many at ``most``; not for what is text around one that it knows."""
        fresh: dict[str, Secret] = {}
        for secret in secrets:
            if most is not None and self._met + len(fresh) >= most:
                break
            if type(secret) is not Secret or len(secret) < SHORTEST or secret in self._learned:
                continue
            if secret.shown == HIDDEN or not any(known in secret for known in self._learned):
                fresh[str(secret)] = secret
        if fresh:
            self._met += 0 if most is None else len(fresh)
            self._learned |= fresh.keys()
            self._net = Net(fresh.values(), self._net)
            self._nets.clear()

    def _hidden(self, value: Json) -> Json:
        match value:
            case Secret():
                return self._storage.put(value, value.shown)
            case Lost():
                return self._storage.lost(value)
            case LazyList() | str() | None | bool():
                return value
            case int() | float():
                return self._storage.put(value, HIDDEN) if self._net.holds(value) else value
            case Mapping():
                if any(type(key) is Secret for key in value):
                    return self._storage.put(value, HIDDEN)
                return {key: self._hidden(held) for key, held in value.items()}
        return [self._hidden(held) for held in value]


def _credentials(value: Json, key: str = "", inside: bool = False) -> Iterator[Secret | Lost]:
    """The secrets of a connection that are credentials by the names they have, or stand under."""
    inside = inside or _CREDENTIAL.search(key) is not None
    if isinstance(value, Mapping):
        for name, held in value.items():
            yield from _credentials(held, name, inside)
    elif isinstance(value, list):
        for held in value:
            yield from _credentials(held, key, inside)
    elif isinstance(value, Secret) and inside and key not in _ORDINARY:
        yield value


class _Shown(LazyList):
    """A list that is read when something refers to it, each item of it as people may see it."""

    def __init__(self, items: LazyList, shown: Callable[[Json], Json]) -> None:
        self._items, self._shown = items, shown

    def __len__(self) -> int:
        return len(self._items)

    def item(self, index: int) -> Json:
        return self._shown(self._items[index])


class _Root(Mapping[str, Json]):
    """A root of a scope that is loaded when something first refers to it."""

    def __init__(self, load: Callable[[], Mapping[str, Json]]) -> None:
        self._load = load

    def __getitem__(self, key: str) -> Json:
        return self._load()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._load())

    def __len__(self) -> int:
        return len(self._load())


class _Met(Mapping[str, Json]):
    """The connections of a run, which take note of the one that is asked for."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def __getitem__(self, key: str) -> Json:
        if key not in self._vault.settings.connections:
            raise KeyError(key)
        return self._vault.connection(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._vault.settings.connections)

    def __len__(self) -> int:
        return len(self._vault.settings.connections)
