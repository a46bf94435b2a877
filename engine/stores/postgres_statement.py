"""A statement that is being put together: its values get names, and fields of a row become expressions."""

from __future__ import annotations

import re
from typing import Final

from flo.engine.stores.fields import index_of
from flo.engine.stores.filters import Field
from flo.engine.stores.postgres_json import to_jsonb
from flo.engine.values import Json, dump

COLUMNS: Final = {
    "key": "to_jsonb(r.key)",
    "createdAt": "to_jsonb(flo.rfc3339(r.created_at))",
    "updatedAt": "to_jsonb(flo.rfc3339(r.updated_at))",
    "expiresAt": "coalesce(to_jsonb(flo.rfc3339(r.expires_at)), 'null'::jsonb)",
    "claimCount": "to_jsonb(r.claim_count)",
}
"""The row fields as JSON. The table is ``r`` in every statement."""

_INTEGER: Final = re.compile(r"\s*[+-]?[0-9]+")


class Values(dict[str, object]):
    """The values of a statement, by the names that they have in it."""

    def bind(self, value: object, kind: str) -> str:
        """Give a value a name; gives what stands for it in the statement, with its type."""
        name = f"v{len(self)}"
        self[name] = value
        return f":{name}::{kind}"

    def json(self, value: Json) -> str:
        """Give a JSON value a name."""
        return self.bind(to_jsonb(dump(value)), "jsonb")


def field_json(field: Field, values: Values) -> str:
    """The expression for the JSON of a field; NULL where it is missing."""
    if field.column is not None:
        return COLUMNS[field.column]
    return _at("r.value", field.path, values)


def _at(value: str, path: tuple[str, ...], values: Values) -> str:
    """The JSON at a path: keys lead into objects, indexes into lists, from their end where they are negative.

    ``01``, ``+1`` and ``-0`` are keys and no indexes here; the server's own paths would take them for both.
    """
    if not path:
        return value
    if not any(_INTEGER.match(part) and index_of(part) is None for part in path):
        if len(path) == 1 and index_of(path[0]) is None:
            return f"({value} -> {values.bind(path[0], 'text')})"
        return f"({value} #> {values.bind(list(path), 'text[]')})"
    for part in path:
        name = values.bind(part, "text")
        value = f"({value} -> {name})" if index_of(part) is None else f"({value} #> ARRAY[{name}])"
    return value
