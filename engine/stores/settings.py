"""The part of the store that keeps environments and connections, sealed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol

from flo.engine.frozen import frozen

Kind = Literal["environment", "connection"]


@frozen
class Setting:
    """A value that somebody set: ``name`` in the environment ``owner``, or the whole connection ``owner``, whose name
    is empty. ``sealed`` is what ``sealing`` made of it."""

    kind: Kind
    owner: str
    name: str
    sealed: str
    updated_at: datetime


class SettingStore(Protocol):
    """Sealed values by kind, owner and name. The store never sees what is in them."""

    def put(self, kind: Kind, owner: str, name: str, sealed: str) -> None:
        """Store a value, in place of the one of the same name."""

    def remove(self, kind: Kind, owner: str, name: str | None = None) -> int:
        """Remove one value, or all of an owner; gives how many there were."""

    def find(self, kind: Kind, owner: str | None = None) -> Sequence[Setting]:
        """The values of an owner, or of all, by owner and name."""

    def reseal(self, old: Setting, sealed: str) -> bool:
        """Replace what is sealed if it is still that of ``old``; says whether."""
