"""What a connection brings to a request: where it goes, and with which credentials."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from flo.engine.errors import StepFailed, did_you_mean
from flo.engine.frozen import frozen
from flo.engine.values import Json, JsonObject, kind_of
from flo.steps.http_bodies import pairs_of
from flo.steps.http_urls import Url, is_absolute, read_url

FIELDS: Final = ("baseUrl", "headers", "params", "auth", "type", "description")
"""``type`` and ``description`` are for people."""
_AUTH: Final = {"bearer": ("type", "token"), "basic": ("type", "username", "password")}


@frozen
class Connection:
    """``headers`` and ``params`` as they stand in it, with what ``auth`` makes; ``base`` is the URL that requests lie
    under, and the only origin they may go to."""

    name: str
    base: Url | None = None
    headers: Mapping[str, Json] = field(default_factory=dict)
    params: Mapping[str, Json] = field(default_factory=dict)

    def url(self, text: str) -> Url:
        """Where a request with this ``url`` goes. Raises ``StepFailed``: no credentials leave for elsewhere."""
        if self.base is None:
            return read_url(text)
        if not is_absolute(text):
            return self.base.under(text)
        url = read_url(text)
        if url.origin != self.base.origin:
            what = f"the connection {self.name!r} is for {self.base.base}, the url is for {url.base}"
            raise StepFailed(f"{what}; leave the connection out, or use another", code="invalid_url", retryable=False)
        return url


NONE: Final = Connection("")


def read_connection(name: str, held: JsonObject) -> Connection:
    """Read a connection for HTTP. Raises ``StepFailed`` (``invalid_connection``) that names the nearest known field."""
    _known(name, "", held, FIELDS)
    base = held.get("baseUrl")
    headers, params = _object(name, "headers", held), _object(name, "params", held)
    try:
        list(pairs_of(params, "params"))
    except StepFailed as failed:
        raise wrong(name, f"its {failed.message}") from failed
    if (auth := held.get("auth")) is not None:
        if any(header.lower() == "authorization" for header in headers):
            raise wrong(name, "it has both 'auth' and the header 'Authorization'; expected one of them")
        headers = {**headers, "Authorization": _authorization(name, auth)}
    return Connection(name, None if base is None else _base(name, base), headers, params)


def _base(name: str, base: Json) -> Url:
    try:
        return read_url(_text(name, "baseUrl", base))
    except StepFailed as failed:
        if failed.code == "invalid_connection":
            raise
        raise wrong(name, f"its 'baseUrl': {failed.message}") from failed


def _authorization(name: str, auth: Json) -> str:
    """The value of the header that ``auth`` stands for."""
    if not isinstance(auth, Mapping):
        raise wrong(name, f"its 'auth' is {kind_of(auth)}; expected an object")
    kind = auth.get("type")
    if not isinstance(kind, str) or kind not in _AUTH:
        hint = did_you_mean(kind, _AUTH) if isinstance(kind, str) else ""
        raise wrong(name, f"its 'auth.type' is none that is known; expected 'bearer' or 'basic'{hint}")
    _known(name, "auth.", auth, _AUTH[kind])
    values = [_text(name, f"auth.{part}", auth.get(part)) for part in _AUTH[kind][1:]]
    if kind == "bearer":
        return f"Bearer {values[0].strip()}"
    return "Basic " + base64.b64encode(":".join(values).encode()).decode("ascii")


def _object(name: str, part: str, held: JsonObject) -> Mapping[str, Json]:
    found = held.get(part)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise wrong(name, f"its {part!r} is {kind_of(found)}; expected an object")
    return found


def _text(name: str, part: str, value: Json) -> str:
    if not isinstance(value, str) or not value:
        came = "empty" if value == "" else "missing" if value is None else kind_of(value)
        raise wrong(name, f"its {part!r} is {came}; expected text")
    return value


def _known(name: str, prefix: str, held: JsonObject, known: Sequence[str]) -> None:
    for part in held:
        if part not in known:
            hint = did_you_mean(part, known) or f"; expected {', '.join(known)}"
            raise wrong(name, f"no field {prefix + part!r}{hint}")


def wrong(name: str, what: str) -> StepFailed:
    """The failure of a connection from which no request can be made."""
    message = f"the connection {name!r} is not one for HTTP: {what}"
    return StepFailed(message, code="invalid_connection", retryable=False)
