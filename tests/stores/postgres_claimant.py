"""A process that claims from a queue in PostgreSQL until nothing is pending: ``postgres_claimant.py URL NAME``.

Says ``ready``, waits for a line, and writes the keys of each claim to stdout as a JSON line.
"""

from __future__ import annotations

import json
import sys

from flo.engine.stores.filters import parse_where
from flo.engine.stores.ordering import parse_order
from flo.engine.stores.postgres import PostgresStore

PENDING = parse_where([{"field": "status", "operator": "equals", "value": "pending"}])
OLDEST = parse_order({"field": "createdAt"})


def main(url: str, name: str) -> None:
    store = PostgresStore.open(url)
    store.data.count("queue", PENDING)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    while rows := store.data.claim("queue", PENDING, OLDEST, limit=10, holder=name, changes=()):
        sys.stdout.write(json.dumps([row.key for row in rows]) + "\n")
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
