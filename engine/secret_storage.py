"""Where the secrets of one execution are put while what is stored of it has something else in their place."""

from __future__ import annotations

import logging
import secrets as random_tokens
import threading
from collections.abc import Callable
from itertools import count
from typing import Final

from flo.engine.errors import FloError
from flo.engine.hiding import wholly_marked
from flo.engine.sealing import Keys, SealBroken
from flo.engine.secrecy import KEPT, KEPT_KEY, SEALED, Lost, Secret
from flo.engine.values import Json, JsonObject

log = logging.getLogger("flo.secrets")

FindKeys = Callable[[], Keys | None]
"""Gives the master keys, None where there are none. Raises ``FloError`` where they cannot be read."""

_NOWHERE: Final = ""

_MOST: Final = 1_000
"""The secrets of so many executions are kept in memory, of those that did not end here the latest."""


class SecretMemory:
    """What this process keeps in memory of the secrets of executions, by their id, without a key to seal it. A name is
    given once in the life of the process: what stands in the store never leads to another secret."""

    def __init__(self) -> None:
        self._nonce, self._numbers = random_tokens.token_hex(8), count()
        self._held: dict[str, dict[str, Json]] = {}
        self._names: dict[str, dict[str, str]] = {}
        """By execution and text, its name: equal texts are kept once."""
        self._lock = threading.Lock()

    def put(self, execution_id: str, value: Json) -> str:
        """Keep a value; gives its name."""
        with self._lock:
            if execution_id not in self._held and len(self._held) >= _MOST:
                self._empty(next(iter(self._held)))
            names = self._names.setdefault(execution_id, {})
            if isinstance(value, Secret) and value in names:
                return names[value]
            name = f"{self._nonce}-{next(self._numbers)}"
            self._held.setdefault(execution_id, {})[name] = value
            if isinstance(value, Secret):
                names[str(value)] = name
            return name

    def get(self, execution_id: str, name: str) -> Json:
        """A value by its name, None where it is not here."""
        with self._lock:
            return self._held.get(execution_id, {}).get(name)

    def empty(self, execution_id: str) -> None:
        """The execution has ended: forget it."""
        with self._lock:
            self._empty(execution_id)

    def _empty(self, execution_id: str) -> None:
        self._held.pop(execution_id, None)
        self._names.pop(execution_id, None)


class SecretStorage:
    """The secrets of one execution: sealed with the master key, else in the memory of this process."""

    def __init__(self, execution_id: str, find_keys: FindKeys, memory: SecretMemory) -> None:
        self._execution_id, self._find_keys, self._memory = execution_id, find_keys, memory

    @property
    def lasts(self) -> bool:
        """Whether what is put here is there for another process, too."""
        return self._keys() is not None

    def put(self, value: Json, shown: str) -> JsonObject:
        """Put a value away; gives what stands for it, ``shown`` to be seen."""
        if (keys := self._keys()) is not None:
            return {KEPT_KEY: shown, SEALED: keys.seal(value, about=_about(self._execution_id))}
        return {KEPT_KEY: shown, KEPT: self._memory.put(self._execution_id, value)}

    def lost(self, value: Lost) -> JsonObject:
        """What stands for a secret that is not here any more."""
        return {KEPT_KEY: str(value), KEPT: _NOWHERE}

    def take(self, form: JsonObject, of: str | None) -> Json:
        """The value for which something stands, in this execution or in the one called ``of``; ``Lost`` where it cannot
        be had."""
        shown, owner = str(form[KEPT_KEY]), of or self._execution_id
        found: Json = None
        if KEPT in form:
            found = self._memory.get(owner, str(form[KEPT]))
        elif (keys := self._keys()) is not None:
            try:
                found = keys.open(str(form[SEALED]), about=_about(owner))
            except SealBroken:
                log.warning("a secret of execution %s was sealed with a master key that is not here", owner)
        if found is None:
            return Lost(shown)
        return Secret(found, shown) if isinstance(found, str) else wholly_marked(found)

    def _keys(self) -> Keys | None:
        try:
            return self._find_keys()
        except FloError as error:  # what ended has to be recorded, whatever became of the keys meanwhile
            log.warning("secrets are not sealed: %s", error)
            return None


def _about(execution_id: str) -> str:
    return f"a secret of execution {execution_id}"
