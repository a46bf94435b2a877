"""Other systems that do the same work, where they are installed: ``pip install -e '.[bench]'``.

Each module has a class ``Contestant`` as ``benchmarks.own.jobs`` has one, with the methods that the system can offer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Final

DISTRIBUTIONS: Final[Mapping[str, Sequence[str]]] = {
    "pgqueuer": ("pgqueuer", "asyncpg"),
    "procrastinate": ("procrastinate",),
    "dbos": ("dbos",),
    "absurd": ("absurd-sdk", "absurdctl"),
    "huey": ("huey",),
}
"""What each peer needs."""


def installed() -> dict[str, str]:
    """The peers that are installed, each with the versions of what it is made of."""
    found = {}
    for peer, distributions in DISTRIBUTIONS.items():
        try:
            found[peer] = ", ".join(f"{name} {version(name)}" for name in distributions)
        except PackageNotFoundError:
            continue
    return found
