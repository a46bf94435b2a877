"""URLs as ``core.http`` takes them: read once, so that what is checked is what is asked."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final
from urllib.parse import quote

import httpx2

from flo.engine.errors import StepFailed
from flo.engine.frozen import frozen
from flo.engine.secrecy import Secret
from flo.engine.values import shown

_ABSOLUTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_AFTER_PATH = re.compile(r"[?#].*", re.DOTALL)
_CREDENTIALS = re.compile(r"//[^/?#]*@")
_NUMBERS = re.compile(r"((?:[A-Za-z][A-Za-z0-9+.-]*:)?//)([0-9a-fxA-FX.]+)(?=[:/?#]|$)")
_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
HIDDEN_PATH: Final = "/…"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@frozen
class Url:
    """A URL without credentials and fragment. ``host`` is a name in ASCII or an address without brackets; ``target`` is
    path and query as they are sent; ``told`` stands for the path in messages, where that holds a secret."""

    scheme: str
    host: str
    port: int
    target: str
    told: str | None = None

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port: who may see what is meant for this server."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """The value of ``Host``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def base(self) -> str:
        """Scheme and authority."""
        return f"{self.scheme}://{self.authority}"

    @property
    def shown(self) -> str:
        """The URL for messages: without its query, which may hold what nobody is to see."""
        path = self.target.partition("?")[0] if self.told is None else self.told
        return self.base + (path if len(path) <= 200 else f"{path[:199]}…")

    def join(self, location: str) -> Url:
        """The URL to which ``location`` leads from here (RFC 3986 section 5). Raises ``StepFailed``."""
        try:
            joined = httpx2.URL(self.base + self.target).join(_spelled(location))
        except (httpx2.InvalidURL, ValueError) as error:
            raise self._astray(location, f"it cannot be read{_why(error, location)}") from None
        if joined.userinfo:
            raise self._astray(location, "it holds credentials")
        try:
            found = _checked(joined)
        except StepFailed as failed:
            raise self._astray(location, failed.message) from None
        return replace(found, told=HIDDEN_PATH) if self.told else found

    def _astray(self, location: str, why: str) -> StepFailed:
        """A redirect that cannot be followed. Where this URL's path is hidden, the other one may repeat it."""
        return invalid(f"redirected to {'elsewhere' if self.told else _told(location)}: {why}")

    def under(self, path: str) -> Url:
        """The URL of ``path`` below this one: with one slash between, whether or not either has it."""
        given, shown_path = path.strip(), (path.shown if isinstance(path, Secret) else path).strip()
        if given.startswith("//"):
            raise invalid(f"the url {_told(shown_path)} begins with two slashes; expected a path below {self.shown}")
        before, query = self.target.partition("?")[::2]
        slash = "" if given[:1] in ("", "?", "#") else "/"
        found = read_url(self.base + (before.rstrip("/") if slash else before) + slash + given.removeprefix("/"))
        if self.told or isinstance(path, Secret):
            above = (self.told or before).rstrip("/") if slash else self.told or before
            found = replace(found, told=above + slash + shown_path.removeprefix("/").partition("?")[0])
        return found.asking(query) if query else found

    def asking(self, query: str) -> Url:
        """The same with ``query``, which is encoded already, after what it asks for itself."""
        return replace(self, target=self.target + ("&" if "?" in self.target else "?") + query)


def is_absolute(text: str) -> bool:
    """Say whether a text is a URL with its scheme."""
    return _ABSOLUTE.match(text.strip()) is not None


def read_url(text: str) -> Url:
    """Read an absolute URL. Of one that is a ``Secret``, messages show no more than that does. Raises ``StepFailed``
    (``invalid_url``)."""
    if isinstance(text, Secret):
        return _read_secret(text)
    text = text.strip()
    if not is_absolute(text):
        raise invalid(f"the url {_told(text)} is not absolute; expected http://… or https://…")
    try:
        read = httpx2.URL(_spelled(text))
    except (httpx2.InvalidURL, ValueError) as error:
        raise invalid(f"the url {_told(text)} cannot be read{_why(error, text)}") from None
    return _checked(read)


def _read_secret(text: Secret) -> Url:
    try:
        found = read_url(str(text))
    except StepFailed:
        raise invalid(f"the url {text.shown} cannot be read; expected http://… or https://…") from None
    if found.target == "/":
        return found
    try:
        told = read_url(text.shown).target.partition("?")[0]
    except StepFailed:
        told = HIDDEN_PATH
    return replace(found, told=told)


def query_of(pairs: Iterable[tuple[str, str]]) -> str:
    """Pairs as a query, percent-encoded."""
    return "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs)


def invalid(message: str) -> StepFailed:
    """The failure of a URL that cannot be asked."""
    return StepFailed(message, code="invalid_url", retryable=False)


def _checked(url: httpx2.URL) -> Url:
    scheme = url.scheme
    if scheme not in _DEFAULT_PORTS:
        raise invalid(f"the scheme {shown(scheme)} is not spoken; expected http or https")
    if url.userinfo:
        raise _credentials()
    port = _DEFAULT_PORTS[scheme] if url.port is None else url.port
    if not 0 < port < 65536:
        raise invalid(f"there is no port {port}; expected 1 to 65535")
    return Url(scheme, _host(url.raw_host.decode("ascii")), port, url.raw_path.decode("ascii"))


def _host(host: str) -> str:
    """A host in one spelling: ``0x7f.1`` and ``2130706433`` are ``127.0.0.1`` (the URL Standard, section 3.5)."""
    host = host.lower()
    try:
        if ":" in host:
            return ipaddress.IPv6Address(_without_zone(host)).compressed
        if not _HOST.fullmatch(host):
            raise ValueError("no host name")
        return _ipv4(host) or host
    except ValueError:
        raise invalid(f"{shown(host)} is no host; expected a name or an address") from None


def _spelled(text: str) -> str:
    """A URL whose address is spelled as usual: httpx2 refuses octal numbers."""
    found = _NUMBERS.match(text)
    try:
        address = _ipv4(found[2].lower()) if found else None
    except ValueError:
        return text
    return text if found is None or address is None else found[1] + address + text[found.end() :]


def _without_zone(host: str) -> str:
    if "%" in host:
        raise ValueError("a zone")
    return host


def _ipv4(host: str) -> str | None:
    """The address that a host of numbers means, or None for a name. Raises ``ValueError``."""
    parts = host.removesuffix(".").split(".")
    if not _NUMBER.fullmatch(parts[-1]):
        return None
    if len(parts) > 4:
        raise ValueError("more than four numbers")
    *first, last = (_number(part) for part in parts)
    if any(number > 255 for number in first) or last >= 256 ** (4 - len(first)):
        raise ValueError("a number that is too large")
    whole = last + sum(number << 8 * (3 - place) for place, number in enumerate(first))
    return str(ipaddress.IPv4Address(whole))


def _number(part: str) -> int:
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    return int(part, 8 if len(part) > 1 and part.startswith("0") else 10)


def _credentials() -> StepFailed:
    return invalid("the url holds credentials; put them into a connection, or into the header 'Authorization'")


def _told(text: str) -> str:
    """A URL as it was given, for a message: without credentials, query and fragment."""
    return shown(_AFTER_PATH.sub("", _CREDENTIALS.sub("//", text)))


def _why(error: Exception, text: str) -> str:
    """What is wrong with a URL, unless that may repeat credentials, a query or a fragment."""
    return "" if set("@?#") & set(text) else f": {error}"
