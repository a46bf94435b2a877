"""From a step's input to the request that it stands for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from flo.engine.errors import StepFailed
from flo.engine.frozen import frozen
from flo.engine.secrecy import Secret
from flo.engine.step import Secrets
from flo.engine.values import Json, JsonObject, kind_of, shown
from flo.steps.http_bodies import as_text, body_of, invalid, pairs_of
from flo.steps.http_connections import NONE, Connection, read_connection, wrong
from flo.steps.http_exchange import Header, Hop
from flo.steps.http_schemas import MAX_REDIRECTS, MAX_RESPONSE, TIMEOUT
from flo.steps.http_urls import query_of

_METHOD = re.compile(r"[A-Z][A-Z-]*")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
_CREDENTIALS: Final = frozenset({"authorization", "cookie", "proxy-authorization", "host"})
"""Headers that are meant for one origin, whoever set them."""

_MANAGED: Final = frozenset(
    {"connection", "content-length", "expect", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding",
     "upgrade"}
)  # fmt: skip
"""Headers that are about the connection or the frame of the message: they follow from what is sent."""

_REFUSED_METHODS: Final = frozenset({"CONNECT", "TRACE", "TRACK"})
_USUAL: Final = {"Accept": "*/*", "Accept-Encoding": "gzip, deflate", "User-Agent": "flo"}


@frozen
class Plan:
    """The first request, and how it is carried out. ``timeout`` is in seconds; ``limit`` in bytes; ``retries`` are the
    tries after the first one."""

    hop: Hop
    timeout: float
    max_redirects: int | None
    retries: int
    limit: int
    warnings: tuple[str, ...]


def plan_of(input: JsonObject, secrets: Secrets) -> Plan:
    """Read a step's input. ``max_redirects`` is None where redirects are not followed. Raises ``StepFailed``."""
    name = input.get("connection")
    connection = NONE if name is None else read_connection(str(name), secrets.connection(str(name)))
    method = str(input.get("method", "GET")).upper()
    if not _METHOD.fullmatch(method):
        raise invalid(f"{shown(method)} is no method; expected letters and hyphens")
    if method in _REFUSED_METHODS:
        raise invalid(f"the method {method!r} is for proxies and tests of the way; it is not sent")
    given = _given(connection, _object(input, "headers"))
    url = connection.url(_text(input, "url"))
    if pairs := list(pairs_of({**connection.params, **_object(input, "params")}, "params")):
        url = url.asking(query_of(pairs))
    body = body_of(input, given["content-type"].value if "content-type" in given else None)
    warnings: list[str] = []
    headers = _headers(given, body and body[1], warnings)
    return Plan(
        hop=Hop(method, url, headers, None if body is None else body[0]),
        timeout=_whole(input, "timeoutMilliseconds", TIMEOUT) / 1000,
        max_redirects=_whole(input, "maxRedirects", MAX_REDIRECTS) if input.get("followRedirects", True) else None,
        retries=_whole(input, "retryAttempts", 0),
        limit=_whole(input, "maxResponseBytes", MAX_RESPONSE),
        warnings=tuple(warnings),
    )


def _given(connection: Connection, own: Mapping[str, Json]) -> dict[str, Header]:
    """The headers that are given, by their names in lower case. What the step says stands above the connection."""
    try:
        theirs = {held.name.lower(): held for held in _read(connection.headers, "its headers")}
    except StepFailed as failed:
        raise wrong(connection.name, failed.message) from failed
    both = {**theirs, **{held.name.lower(): held for held in _read(own, "headers")}}
    return {
        key: replace(held, credential=held.credential or key in theirs or key in _CREDENTIALS)
        for key, held in both.items()
    }


def _headers(given: Mapping[str, Header], media: str | None, warnings: list[str]) -> tuple[Header, ...]:
    """The headers to send: the given ones above the usual ones."""
    found = {name.lower(): Header(name, value) for name, value in _USUAL.items()}
    if media is not None:
        found["content-type"] = Header("Content-Type", media)
    with_boundary = media is not None and media.startswith("multipart/")
    for key, held in given.items():
        if key in _MANAGED or (key == "content-type" and with_boundary):
            warnings.append(f"the header {held.name!r} follows from what is sent: the given one was left out")
        else:
            found[key] = held
    return tuple(found.values())


def _read(headers: Mapping[str, Json], where: str) -> Iterator[Header]:
    """Headers as text, without blanks around their values. A value that is a secret makes a credential."""
    for name, held in headers.items():
        if held is None:
            continue
        if not _NAME.fullmatch(name):
            raise invalid(f"{where}: {shown(name)} is no name of a header")
        if not isinstance(held, str | bool | int | float):
            raise invalid(f"{where}: the header {name!r} is {kind_of(held)}; expected text, a number or a boolean")
        value = as_text(held).strip(" \t\r\n")
        if not _VALUE.fullmatch(value):
            raise invalid(f"{where}: the header {name!r} holds a line break or another control character")
        yield Header(name, value, isinstance(held, Secret))


def _object(input: JsonObject, name: str) -> Mapping[str, Json]:
    held = input.get(name, {})
    assert isinstance(held, Mapping)
    return held


def _text(input: JsonObject, name: str) -> str:
    held = input.get(name, "")
    assert isinstance(held, str)
    return held


def _whole(input: JsonObject, name: str, default: int) -> int:
    held = input.get(name, default)
    assert isinstance(held, int | float)
    return int(held)
