"""Sealed settings of the memory store."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from flo.engine.clock import Clock
from flo.engine.stores.settings import Kind, Setting


class MemorySettings:
    """The ``SettingStore`` of the memory store."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[tuple[str, str, str], Setting] = {}
        self._lock = threading.Lock()

    def put(self, kind: Kind, owner: str, name: str, sealed: str) -> None:
        with self._lock:
            self._kept[kind, owner, name] = Setting(kind, owner, name, sealed, self._clock.now())

    def remove(self, kind: Kind, owner: str, name: str | None = None) -> int:
        with self._lock:
            gone = [key for key in self._kept if key[:2] == (kind, owner) and name in (None, key[2])]
            for key in gone:
                del self._kept[key]
            return len(gone)

    def find(self, kind: Kind, owner: str | None = None) -> Sequence[Setting]:
        with self._lock:
            return [
                held for key, held in sorted(self._kept.items()) if held.kind == kind and owner in (None, held.owner)
            ]

    def reseal(self, old: Setting, sealed: str) -> bool:
        key = (old.kind, old.owner, old.name)
        with self._lock:
            held = self._kept.get(key)
            if held is None or held.sealed != old.sealed:
                return False
            self._kept[key] = replace(held, sealed=sealed)
            return True
