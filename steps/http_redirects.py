"""Where a redirect leads, and what of the request goes along (the Fetch Standard, "HTTP-redirect fetch")."""

from __future__ import annotations

from typing import Final

from flo.engine.errors import StepFailed
from flo.steps.http_exchange import Fields, Header, Hop, first

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
SEE_OTHER: Final = frozenset({301, 302, 303})
"""After these the server may have acted on the request that it redirects."""

_BODY_HEADERS: Final = frozenset(
    {"content-encoding", "content-language", "content-location", "content-type", "content-length"}
)


def redirects(status: int, headers: Fields) -> bool:
    """Say whether an answer is a redirect: one without ``Location`` is an answer like any other."""
    return status in REDIRECTS and first(headers, "location") is not None


def next_hop(hop: Hop, status: int, location: str) -> Hop:
    """The request that follows a redirect.

    Credentials stay behind when scheme, host or port change: the headers that are left are those of every later
    request. Raises ``StepFailed`` for a URL that cannot be asked, and for a way from https to http.
    """
    try:
        url = hop.url.join(location)
    except StepFailed as failed:
        raise hop.fails("invalid_url", failed.message) from failed
    if hop.url.scheme == "https" and url.scheme == "http":
        raise hop.fails("insecure_redirect", f"redirected from https to {url.shown}: refused")
    method, body, headers = hop.method, hop.body, hop.headers
    if (status in (301, 302) and method == "POST") or (status == 303 and method not in ("GET", "HEAD")):
        method, body = "GET", None
        headers = _without_body(headers)
    if url.origin != hop.url.origin:
        headers = tuple(held for held in headers if not held.credential)
    return Hop(method, url, headers, body)


def _without_body(headers: tuple[Header, ...]) -> tuple[Header, ...]:
    return tuple(held for held in headers if held.name.lower() not in _BODY_HEADERS)
