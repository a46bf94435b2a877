"""Which addresses a request may reach: the guard of ``core.http``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from flo.engine.errors import StepFailed, did_you_mean
from flo.engine.frozen import frozen

VARIABLE: Final = "FLO_HTTP_GUARD"
LINK_LOCAL: Final = "link-local"
PRIVATE: Final = "private"

_NEVER: Final = tuple(
    (ip_network(network), what)
    for what, networks in {
        "link-local": ("169.254.0.0/16", "fe80::/10"),
        "the metadata service of a cloud": (
            "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254", "fd00:42::42",
        ),
        "unspecified": ("0.0.0.0/8", "::"),
        "multicast": ("224.0.0.0/4", "ff00::/8"),
        "reserved": ("240.0.0.0/4",),
    }.items()
    for network in networks
)  # fmt: skip
"""Where nothing is that a workflow should talk to."""

_EMBEDDING: Final = tuple(
    ip_network(network) for network in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
)
"""IPv6 networks whose last 32 bits are an IPv4 address: compatible, mapped (RFC 4291), translated (RFC 2765), NAT64
(RFC 6052, RFC 8215)."""


@frozen
class Guard:
    """``private`` refuses also what is not reachable from the whole internet: loopback, private networks, …"""

    private: bool = False

    def refusal(self, address: str) -> str | None:
        """Why an address may not be reached, or None."""
        found = ip_address(address)
        for meant in (found, *_embedded(found)):
            for network, what in _NEVER:
                if meant.version == network.version and meant in network:
                    return what
            if self.private and (not meant.is_global or (isinstance(meant, IPv6Address) and meant.is_site_local)):
                return "loopback" if meant.is_loopback else "private"
        return None


def guard_of(environ: Mapping[str, str]) -> Guard:
    """The guard as the environment sets it. Raises ``StepFailed`` for a word that it does not know."""
    word = environ.get(VARIABLE, "") or LINK_LOCAL
    if word not in (LINK_LOCAL, PRIVATE):
        hint = did_you_mean(word, (LINK_LOCAL, PRIVATE))
        what = f"{VARIABLE} is {word!r}; expected {LINK_LOCAL!r} or {PRIVATE!r}{hint}"
        raise StepFailed(what, code="invalid_setting", retryable=False)
    return Guard(private=word == PRIVATE)


def _embedded(address: IPv4Address | IPv6Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses that an IPv6 address leads to."""
    if isinstance(address, IPv4Address) or int(address) < 2:
        return
    if any(address in network for network in _EMBEDDING):
        yield IPv4Address(int(address) & 0xFFFF_FFFF)
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
