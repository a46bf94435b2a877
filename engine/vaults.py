"""Makes the vaults of executions, and what may be stored of what they begin with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from flo.engine.errors import InputInvalid
from flo.engine.hiding import filled, has_secret, secrets_in
from flo.engine.jobs import Request
from flo.engine.secrecy import Secret
from flo.engine.secret_storage import FindKeys, SecretMemory, SecretStorage
from flo.engine.values import Json, JsonObject
from flo.engine.vault import NoSettings, Settings, Vault

Load = Callable[[str | None], Settings]
"""Gives the settings of an environment, None for the default one. Raises ``FloError``."""


class Vaults:
    """The vaults of the executions of one engine."""

    def __init__(self, load: Load = lambda name: NoSettings(), find_keys: FindKeys = lambda: None) -> None:
        self.load = load
        self._find_keys, self._memory = find_keys, SecretMemory()

    def of(self, execution_id: str, environment: str | None, *, begun: bool = False) -> Vault:
        """The vault of an execution in an environment; ``begun``: an earlier delivery may have stored something."""
        return Vault(lambda: self.load(environment), self._storage(execution_id), begun=begun)

    def forget(self, execution_id: str) -> None:
        """An execution has ended: nothing of it is needed in memory."""
        self._memory.empty(execution_id)

    def stored(self, request: Request) -> Request:
        """A request as it may be stored: secrets in its input sealed. Without a master key only one that runs here and
        now may have some. Raises ``InputInvalid``."""
        if not has_secret(request.input):
            return request
        if request.queue is not None and not self._storage(request.id).lasts and _is_here(request.input):
            raise InputInvalid(
                "input",
                "it holds a secret, which an execution that waits in a queue can only keep sealed; set FLO_MASTER_KEY"
                " ('flo env key' prints a new one), or let the workflow read the secret from $env",
            )
        vault = self.of(request.id, request.environment)
        return replace(request, input=cast(JsonObject, vault.hide(vault.meet(request.input))), input_text=None)

    def opened(self, value: Json, execution_id: str) -> Json:
        """What an execution stored, with its secrets."""
        return self.of(execution_id, None).open(value, of=execution_id)

    def sealed_opened(self, value: Json, execution_id: str) -> Json:
        """The same, as far as it was sealed: what another execution is to be given, wherever it runs."""
        return self.opened(value, execution_id) if self._storage(execution_id).lasts else value

    def filled(self, stored: JsonObject, execution_id: str, given: JsonObject) -> JsonObject:
        """The input that an execution stored, with its secrets; those that were not kept are taken from what it is
        given again."""
        return cast(JsonObject, filled(self.opened(stored, execution_id), given))

    def _storage(self, execution_id: str) -> SecretStorage:
        return SecretStorage(execution_id, self._find_keys, self._memory)


def _is_here(value: JsonObject) -> bool:
    """Whether a value holds a secret that was not lost."""
    return any(type(secret) is Secret for secret in secrets_in(value))
