"""Where the master keys of a store come from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from flo.engine.errors import InputInvalid
from flo.engine.sealing import KEY_VARIABLE, Keys, SealBroken, find_keys, keep_new_key, new_key


class Keyring:
    """The master keys of one store: those of ``FLO_MASTER_KEY``, else those of the file ``key_file``, which an embedded
    store has beside it. ``in_memory``: it is made for this process, as the store is."""

    def __init__(self, process: Mapping[str, str], key_file: Path | None = None, *, in_memory: bool = False) -> None:
        self.key_file = None if process.get(KEY_VARIABLE, "").strip(", ") else key_file
        self._process, self._in_memory = process, in_memory
        self._keys: Keys | None = None
        self._state: tuple[int, ...] | None = None

    def find(self) -> Keys | None:
        """The keys that are here, None where there are none. A key file is looked at each time, and read anew when it
        has changed. Raises ``InputInvalid`` that never shows a key."""
        if self.key_file is None:
            if self._keys is None:
                self._keys = find_keys(self._process, None)
            return self._keys
        try:
            found = os.stat(self.key_file)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputInvalid(str(self.key_file), f"it cannot be read: {error.strerror}") from error
        state = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
        if self._state != state:
            self._keys, self._state = find_keys(self._process, self.key_file), state
        return self._keys

    def for_sealing(self, seals_already: Callable[[], bool]) -> Keys:
        """The keys, made if there are none and the store can keep one. Raises ``InputInvalid`` with the remedy where it
        cannot, ``SealBroken`` where something is sealed already: its key was lost, and another one would hide that."""
        if (keys := self.find()) is not None:
            return keys
        if self.key_file is None and not self._in_memory:
            raise InputInvalid(
                KEY_VARIABLE,
                "it is not set, and this store keeps no key itself: 'flo env key' prints a new one; keep it safe, and"
                " set it wherever workflows run",
            )
        # in this order: who seals has made the key before
        sealed, keys = seals_already(), self.find()
        if keys is not None:
            return keys
        if sealed:
            raise SealBroken("what is in the store", no_key(self.key_file))
        if self.key_file is None:
            self._keys = Keys([new_key()], "the key of this process")
            return self._keys
        return keep_new_key(self.key_file)

    def warning(self) -> str | None:
        """What to say of a key that others on the machine may read."""
        if os.name != "posix" or self.key_file is None or not self.key_file.is_file():
            return None
        if not os.stat(self.key_file).st_mode & 0o077:
            return None
        return f"others on this machine may read the master key: chmod 600 {self.key_file}"


def no_key(key_file: Path | None) -> str:
    """Why nothing can be opened where no key is here."""
    gone = "" if key_file is None else f", and there is no key file {str(key_file)!r}"
    return f"{KEY_VARIABLE} is not set{gone}"
