"""Secret text: marked where it comes from, used as any text, hidden where it would be kept or shown."""

from __future__ import annotations

from typing import Any, Final

HIDDEN: Final = "***"
"""What stands for a secret wherever something is kept or shown."""

KEPT_KEY: Final = "$flo.secret"
"""In what is stored, an object of two fields stands for a secret: this one, what is shown of it, and one of
``KEPT_AS``."""

SEALED: Final = "sealed"
KEPT: Final = "kept"
KEPT_AS: Final = (SEALED, KEPT)
"""``sealed`` has the secret itself, for who holds the master key; ``kept`` says where the process that wrote it has it
in memory."""

NOT_KEPT: Final = (
    "was a secret that an earlier delivery had, and it cannot be had any more: without a master key none is kept, and"
    " one that was sealed is opened by its own key alone; read it from $env or $connections where it is used, or set"
    " FLO_MASTER_KEY"
)
"""What is said of a value that is ``Lost``."""


class Secret(str):
    """Text that may be used, and not be shown. ``shown`` stands for it in logs, records and errors: ``***``, or the
    text around it with that in its place. One that is not ``certain`` only looks like one: an ordinary text in which
    that of a short secret stands."""

    __slots__ = ("certain", "shown")
    shown: str
    certain: bool

    def __new__(cls, text: str, shown: str = HIDDEN, certain: bool = True) -> Secret:
        made = super().__new__(cls, text)
        made.shown, made.certain = shown, certain
        return made

    def __repr__(self) -> str:
        return f"Secret({self.shown!r})"

    def __reduce__(self) -> tuple[type[Secret], tuple[str, str, bool]]:
        return Secret, (str(self), self.shown, self.certain)


class Lost(str):
    """Where a secret was that an earlier delivery had, and that could not be kept. Its text is what was shown; whoever
    refers to it fails."""

    __slots__ = ()


def is_kept_form(value: dict[Any, Any]) -> bool:
    """Whether an object is what stands for a secret in what is stored."""
    if KEPT_KEY not in value or len(value) != 2 or not isinstance(value[KEPT_KEY], str):
        return False
    return any(isinstance(value.get(kept), str) for kept in KEPT_AS)


def shown_forms(value: Any) -> Any:
    """A JSON value as it may be shown: for secrets, in memory or as they are stored, what stands for them. What is read
    from the store when something refers to it stays."""
    kind = type(value)
    if kind is Secret:
        return value.shown
    if kind is dict:
        if is_kept_form(value):
            return value[KEPT_KEY]
        return {shown_forms(key): shown_forms(held) for key, held in value.items()}
    if kind is list or kind is tuple:
        return [shown_forms(held) for held in value]
    return str(value) if kind is Lost else value
