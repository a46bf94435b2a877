"""Secrets at rest: sealed with a master key, and bound to the place that they were sealed for."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from flo.engine.errors import FloError, InputInvalid
from flo.engine.values import Json, dump

KEY_VARIABLE: Final = "FLO_MASTER_KEY"
"""Holds master keys, separated by commas. Without it, an embedded store has its key in a file beside it."""


class SealBroken(FloError):
    """Something sealed cannot be opened: by none of the keys that are here, or it was sealed for another place."""

    def __init__(self, what: str, why: str = "") -> None:
        self.what = what
        why = why or (
            f"it was sealed with another master key than those in {KEY_VARIABLE} (or in the key file beside the"
            " store), or it was changed"
        )
        super().__init__(f"{what} cannot be opened: {why}")


class Keys:
    """Master keys: the first one seals, each of them opens."""

    def __init__(self, keys: Sequence[str], source: str) -> None:
        """Raises ``InputInvalid`` that names ``source``, never the key."""
        from cryptography.fernet import Fernet, MultiFernet  # here and below: few commands seal or open something

        try:
            each = [Fernet(key) for key in keys]
            self._fernet, self._first = MultiFernet(each), each[0]
        except ValueError:
            raise InputInvalid(
                source, "a master key is 32 bytes in url-safe base64; 'flo env key' prints a new one"
            ) from None

    def seal(self, value: Json, *, about: str) -> str:
        """Seal a value for the place ``about``."""
        return self._fernet.encrypt(dump([about, value]).encode()).decode()

    def open(self, sealed: str, *, about: str) -> Json:
        """What was sealed for ``about``. Raises ``SealBroken``."""
        from cryptography.fernet import InvalidToken

        try:
            pair: Any = json.loads(self._fernet.decrypt(sealed.encode()))
        except (InvalidToken, ValueError):
            raise SealBroken(about) from None
        if not isinstance(pair, list) or len(pair) != 2 or pair[0] != about:
            raise SealBroken(about)
        value: Json = pair[1]
        return value

    def is_current(self, sealed: str) -> bool:
        """Whether the first key sealed it: not one that is only here to open what is older."""
        from cryptography.fernet import InvalidToken

        try:
            self._first.decrypt(sealed.encode())
        except (InvalidToken, ValueError):
            return False
        return True


def new_key() -> str:
    """A new master key."""
    from cryptography.fernet import Fernet

    return Fernet.generate_key().decode()


def find_keys(process: Mapping[str, str], key_file: Path | None) -> Keys | None:
    """The master keys that are here: of the process environment, else of the file; None where there are none."""
    if held := [key.strip() for key in process.get(KEY_VARIABLE, "").split(",") if key.strip()]:
        return Keys(held, KEY_VARIABLE)
    if key_file is None:
        return None
    try:
        return _read_keys(key_file)
    except FileNotFoundError:
        return None


def keep_new_key(key_file: Path) -> Keys:
    """Make a key for an embedded store, in a file that only its owner reads; the one that is there, if another process
    was faster. Raises ``InputInvalid`` where the file cannot be written."""
    begun = key_file.with_name(f"{key_file.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(new_key() + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # under its name it is whole from the first moment on
            os.link(begun, key_file)
        _sync(key_file.parent)
    except OSError as error:
        raise InputInvalid(str(key_file), f"a master key cannot be kept there: {error.strerror}") from error
    finally:
        begun.unlink(missing_ok=True)
    return _read_keys(key_file)


def _read_keys(key_file: Path) -> Keys:
    """Keys of a file, one a line, the one that seals first."""
    try:
        return Keys(key_file.read_text(encoding="ascii").split(), str(key_file))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputInvalid(str(key_file), f"it cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise InputInvalid(
            str(key_file), "it holds no master keys, which are letters, digits, '-', '_' and '='"
        ) from None


def _sync(folder: Path) -> None:
    """Let a new name survive a power cut, where a folder can be synchronized."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
