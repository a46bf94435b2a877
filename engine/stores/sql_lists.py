"""Many texts as one parameter of a statement, so that its text does not depend on how many there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Raw
from msgspec.json import Encoder

from flo.engine.values import dump

PORTION: Final = 16 * 1024 * 1024
"""So many characters go in one parameter, or one row where that has more."""

_ENCODER: Final = Encoder()


def one_of(dialect: str, name: str) -> str:
    """What follows a column that is to be one of the parameter ``name``, which ``listed`` made."""
    if dialect == "postgresql":
        return f"= ANY (:{name}::text[])"
    return f"IN (SELECT value FROM json_each(:{name}))"


def listed(dialect: str, texts: Iterable[str]) -> object:
    """The value of such a parameter."""
    return list(texts) if dialect == "postgresql" else dump(list(texts))


def recordsets(rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    """Rows as JSON for ``json_to_recordset``: one text, or several where they are large. A value that is ``Raw`` is
    JSON already, and stands there as it is."""
    for portion in _portions([_ENCODER.encode(row).decode() for row in rows]):
        yield f"[{','.join(portion)}]"


def by_key(texts: Mapping[str, str]) -> str:
    """An object for ``json_each``, of values that are JSON already."""
    return _ENCODER.encode({key: Raw(text) for key, text in texts.items()}).decode()


def _portions(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """The texts in turn, as many at once as have ``PORTION`` characters together."""
    begin = characters = 0
    for at, text in enumerate(texts):
        if at > begin and characters + len(text) > PORTION:
            yield texts[begin:at]
            begin, characters = at, 0
        characters += len(text)
    if texts:
        yield texts[begin:]
