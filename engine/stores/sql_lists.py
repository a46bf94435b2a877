"""Lists of texts as one parameter of a statement, so that its text does not depend on how many there are."""

from __future__ import annotations

from collections.abc import Iterable

from flo.engine.values import dump


def one_of(dialect: str, name: str) -> str:
    """What follows a column that is to be one of the parameter ``name``, which ``listed`` made."""
    if dialect == "postgresql":
        return f"= ANY (:{name}::text[])"
    return f"IN (SELECT value FROM json_each(:{name}))"


def listed(dialect: str, texts: Iterable[str]) -> object:
    """The value of such a parameter."""
    return list(texts) if dialect == "postgresql" else dump(list(texts))
