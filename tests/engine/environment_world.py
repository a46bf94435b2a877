"""Where environments and connections come from: files, variables of a process, and an encrypted table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from flo.engine.environments.keyring import Keyring
from flo.engine.environments.loading import Environments
from flo.engine.environments.table import keep
from flo.engine.sealing import KEY_VARIABLE, new_key
from flo.engine.secrecy import Secret
from flo.engine.stores.memory import MemoryStore
from flo.engine.stores.settings import SettingStore
from flo.engine.values import Json
from flo.testing import FrozenClock

OLD, NEW = new_key(), new_key()


class World:
    """A folder with a settings file, the variables of a process, and an encrypted table."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "flo.settings.json"
        self.process: dict[str, str] = {}
        self.table: SettingStore = MemoryStore(FrozenClock()).settings
        self.keyring = Keyring({KEY_VARIABLE: OLD})

    def write(self, **fields: Json) -> None:
        self.file.write_text(json.dumps(fields), encoding="utf-8")

    def keep(self, owner: str, name: str, raw: Json) -> None:
        keep(self.table, self.keyring, "environment", owner, name, raw)

    def connect(self, name: str, raw: Json) -> None:
        keep(self.table, self.keyring, "connection", name, "", raw)

    @property
    def environments(self) -> Environments:
        return Environments(
            self.table, self.keyring.find, self.file if self.file.exists() else None, dict(self.process)
        )

    def env(self, name: str | None = None) -> Mapping[str, Json]:
        return self.environments.load(name).env

    def connection(self, name: str) -> Mapping[str, Json]:
        return self.environments.load().connections[name]

    def values(self, **values: Json) -> Mapping[str, Json]:
        """The environment ``default`` with these values in the file."""
        self.write(environments={"default": values})
        return self.env()


def marks(value: object) -> object:
    """A value with ``Secret`` where one is marked, by what is shown of it."""
    match value:
        case Secret():
            return f"secret: {value.shown}"
        case dict():
            return {key: marks(held) for key, held in value.items()}
        case list():
            return [marks(held) for held in value]
    return value


def on(table: SettingStore, *keys: str) -> Environments:
    """What a process with these master keys sees."""
    return Environments(table, Keyring({KEY_VARIABLE: ",".join(keys)}).find, None, {})


def filled(table: SettingStore, key: str) -> None:
    ring = Keyring({KEY_VARIABLE: key})
    for name in ("A", "B"):
        keep(table, ring, "environment", "prod", name, {"secret": f"hunter2-{name}"})
    keep(table, ring, "connection", "stripe", "", {"token": "hunter2-c"})
