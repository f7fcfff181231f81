"""An empty database for each test, in a file or in the Postgres of the run."""

import asyncio
import contextlib
import shutil
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import asyncpg
import pytest

from tests.support.accounts import migrated
from tests.support.once import Once

T = TypeVar("T")

KINDS = ("sqlite", pytest.param("postgres", marks=pytest.mark.second_database))
"""What fixtures are parametrized with; `suites.py` says when Postgres is left out."""


async def _make_database(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """The URL of a new database, which stays until the run ends. The Postgres of the run is started at the first
    need."""
    name = _new_name()
    if kind == "sqlite":
        return f"sqlite+aiosqlite:///{folder / name}.sqlite"
    server: str = request.getfixturevalue("postgres_url")
    await _run(server, f"CREATE DATABASE {name} TEMPLATE template0 STRATEGY FILE_COPY")
    return server.rpartition("/")[0] + f"/{name}"


@contextlib.asynccontextmanager
async def empty_database(kind: str, request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[str]:
    """The URL of a new database, gone at the end."""
    url = await _make_database(kind, request, folder)
    yield url
    if kind == "postgres":
        await _drop(url)


async def prepare_once(
    kind: str, request: pytest.FixtureRequest, prepare: Callable[[str], Awaitable[T]]
) -> T:
    """Return what `prepare` makes of the URL of an empty database, once per run: tests have copies of that database."""
    once: Once = request.getfixturevalue("once")
    of_the_run: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")

    async def make() -> T:
        return await prepare(await _make_database(kind, request, of_the_run.mktemp("prepared")))

    return await once((prepare, kind), make)


@contextlib.asynccontextmanager
async def migrated_database(kind: str, request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[str]:
    """The URL of a new database that is at this version and has no rows, gone at the end. It is a copy, which takes a
    tenth of the time of the migrations."""
    async with copied_database(await prepare_once(kind, request, _migrate), folder) as url:
        yield url


async def _migrate(url: str) -> str:
    async with migrated(url):
        return url


@contextlib.asynccontextmanager
async def copied_database(url: str, folder: Path) -> AsyncIterator[str]:
    """The URL of a copy of this database, which nobody is connected to. A file is copied into `folder`."""
    name = _new_name()
    if url.startswith("sqlite"):
        copy = folder / f"{name}.sqlite"
        shutil.copyfile(url.partition("///")[2], copy)
        yield f"sqlite+aiosqlite:///{copy}"
        return
    base, _, source = url.rpartition("/")
    await _copy(f"{base}/postgres", source, name)
    yield f"{base}/{name}"
    await _drop(f"{base}/{name}")


async def _copy(server: str, source: str, name: str) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                return await _run(server, f"CREATE DATABASE {name} TEMPLATE {source} STRATEGY FILE_COPY")
            except asyncpg.ObjectInUseError:
                # Who was connected last has gone, and the server's process for it is only just ending.
                await asyncio.sleep(0.05)


def _new_name() -> str:
    return f"test_{uuid.uuid4().hex}"


async def _drop(url: str) -> None:
    base, _, name = url.rpartition("/")
    await _run(f"{base}/postgres", f"DROP DATABASE {name} WITH (FORCE)")


async def _run(server: str, statement: str) -> None:
    connection = await asyncpg.connect(server)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
