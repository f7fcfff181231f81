"""An empty database for each test, in a file or in the Postgres of the run."""

import contextlib
import shutil
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

KINDS = ("sqlite", "postgres")


@contextlib.asynccontextmanager
async def empty_database(kind: str, request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[str]:
    """The URL of a new database, gone at the end. The Postgres of the run is started at the first need."""
    name = f"test_{uuid.uuid4().hex}"
    if kind == "sqlite":
        yield f"sqlite+aiosqlite:///{folder / name}.sqlite"
        return
    server: str = request.getfixturevalue("postgres_url")
    await _run(server, f"CREATE DATABASE {name} TEMPLATE template0 STRATEGY FILE_COPY")
    yield server.rpartition("/")[0] + f"/{name}"
    await _run(server, f"DROP DATABASE {name} WITH (FORCE)")


@contextlib.asynccontextmanager
async def copied_database(url: str, folder: Path) -> AsyncIterator[str]:
    """The URL of a copy of this database, which nobody is connected to. A file is copied into `folder`."""
    name = f"test_{uuid.uuid4().hex}"
    if url.startswith("sqlite"):
        copy = folder / f"{name}.sqlite"
        shutil.copyfile(url.partition("///")[2], copy)
        yield f"sqlite+aiosqlite:///{copy}"
        return
    base, _, source = url.rpartition("/")
    await _run(f"{base}/postgres", f"CREATE DATABASE {name} TEMPLATE {source} STRATEGY FILE_COPY")
    yield f"{base}/{name}"
    await _run(f"{base}/postgres", f"DROP DATABASE {name} WITH (FORCE)")


async def _run(server: str, statement: str) -> None:
    connection = await asyncpg.connect(server)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
