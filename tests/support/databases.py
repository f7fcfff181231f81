"""Databases of tests, in files or in the Postgres server of the run, and functions to read from them."""

import asyncio
import contextlib
import functools
import shutil
import sqlite3
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import asyncpg
import pytest
from sqlalchemy import Engine, Select, event, select
from sqlalchemy.ext.asyncio import AsyncEngine

from control_domain.database.base import Base
from tests.support.accounts import migrated

T = TypeVar("T")

KINDS = ("sqlite", pytest.param("postgres", marks=pytest.mark.second_database))
"""Parameters of database fixtures; `suites.py` says when Postgres is left out."""


async def _make_database(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """Return the URL of a new database that stays until the run ends. The first use starts the Postgres server."""
    name = _new_name()
    if kind == "sqlite":
        return f"sqlite+aiosqlite:///{folder / name}.sqlite"
    server: str = request.getfixturevalue("postgres_url")
    await _run(server, f"CREATE DATABASE {name} TEMPLATE template0 STRATEGY FILE_COPY")
    return server.rpartition("/")[0] + f"/{name}"


@contextlib.asynccontextmanager
async def empty_database(kind: str, request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[str]:
    """Yield the URL of a new, empty database; drop it at the end."""
    url = await _make_database(kind, request, folder)
    yield url
    if kind == "postgres":
        await _drop(url)


async def prepare_once(
    kind: str, request: pytest.FixtureRequest, prepare: Callable[[str], Awaitable[T]]
) -> T:
    """Return the result of `prepare` for the URL of an empty database; tests copy it. It is called once per run."""
    once: Once = request.getfixturevalue("once")
    run_folders: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")

    async def make() -> T:
        return await prepare(await _make_database(kind, request, run_folders.mktemp("prepared")))

    return await once((prepare, kind), make)


@contextlib.asynccontextmanager
async def migrated_database(kind: str, request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[str]:
    """Yield the URL of a new, migrated database without rows; drop it at the end.

    It is a copy, which takes a tenth of the time of the migrations.
    """
    async with copied_database(await prepare_once(kind, request, _migrate), folder) as url:
        yield url


async def _migrate(url: str) -> str:
    async with migrated(url):
        return url


@contextlib.asynccontextmanager
async def copied_database(url: str, folder: Path) -> AsyncIterator[str]:
    """Yield the URL of a copy of this database, which must have no connections. A file is copied into `folder`."""
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
                # The last client has disconnected, but the server process of its connection has not ended yet.
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


async def read_all_rows(
    engine: AsyncEngine, without: frozenset[str] = frozenset()
) -> dict[str, list[tuple[Any, ...]]]:
    """Return the committed rows of every table in the order of their keys; `without` names columns to leave out.

    SQLite files are read directly with `sqlite3`, which takes a tenth of the time, so values have the driver's types.
    """
    if engine.dialect.name == "sqlite":
        if engine.sync_engine not in _readers:
            _readers[engine.sync_engine] = _Reader(engine.sync_engine)
        return _readers[engine.sync_engine].read(without)
    async with engine.connect() as connection:
        return {
            name: [tuple(row) for row in await connection.execute(query)]
            for name, (query, _) in _queries(without).items()
        }


class _Reader:
    """A connection that reads a file of SQLite again only after somebody has written it.

    Most tests read twice to see that nothing has changed: 0.1 ms of CPU instead of 3.4 ms for the second time.
    """

    def __init__(self, engine: Engine) -> None:
        assert engine.url.database is not None
        self._file = sqlite3.connect(engine.url.database, isolation_level=None, check_same_thread=False)
        self._version: object = None
        self._rows: dict[frozenset[str], dict[str, list[tuple[Any, ...]]]] = {}
        # The last connection to close moves the write-ahead log into the file, which tests may copy then.
        event.listen(engine, "engine_disposed", self._close)

    def read(self, without: frozenset[str]) -> dict[str, list[tuple[Any, ...]]]:
        version = self._file.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._version = version
            self._rows.clear()
        if without not in self._rows:
            queries = _queries(without).items()
            self._rows[without] = {name: self._file.execute(sql).fetchall() for name, (_, sql) in queries}
        return {name: list(rows) for name, rows in self._rows[without].items()}

    def _close(self, engine: Engine) -> None:
        self._file.close()
        _readers.pop(engine, None)


_readers: WeakKeyDictionary[Engine, _Reader] = WeakKeyDictionary()


@functools.cache
def _queries(without: frozenset[str]) -> dict[str, tuple[Select[Any], str]]:
    """Return the queries by table name, as SQLAlchemy objects and as text."""
    found = {}
    for table in Base.metadata.sorted_tables:
        columns = [column for column in table.columns if column.name not in without]
        query = select(*columns).order_by(*table.primary_key.columns)
        found[table.name] = (query, str(query))
    return found


@contextmanager
def recorded_statements(engine: AsyncEngine) -> Iterator[list[str]]:
    """Yield a list to which each SQL statement of the engine is appended."""
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    event.listen(engine.sync_engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(engine.sync_engine, "before_cursor_execute", note)


T = TypeVar("T")


class Once:
    """Makes each value once per run and keeps it under its key.

    pytest makes a parametrised session fixture again whenever the next test has another parameter; this does not.
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}

    async def __call__(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        if key not in self._made:
            self._made[key] = await make()
        made: T = self._made[key]
        return made
