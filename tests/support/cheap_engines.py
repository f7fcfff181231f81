"""Cheap SQLAlchemy engines, for tests that open one each."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import aiosqlite
import pytest
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.util import LRUCache

from control_domain.database import engine as database
from control_domain.database import postgres
from tests.support.strict_sqlite import refuse_as_postgres

_STATEMENTS = 4000
_compiled: dict[type[Dialect], LRUCache[Any, Any]] = {}
PREPARE_SQLITE = database._prepare_sqlite
"""The product's own function, which syncs each commit."""


@contextmanager
def cheap_engines() -> Iterator[None]:
    """In this process, compile each SQL statement once for all engines; never wait for the disk on SQLite, and use its
    threads only for calls that may wait for a lock.

    SQLAlchemy compiles a statement once per engine, for 1 to 5 ms. Nothing under test survives a power cut, so SQLite
    does not have to sync; `test_database.py` tests the product's own setting. A call in the thread of a connection
    takes 60 us of CPU, and three of the four calls of a statement (cursor, fetch, close) never wait: with the
    thread for all calls, tests of the control API take a fifth more CPU.
    """

    def create(*arguments: Any, **options: Any) -> AsyncEngine:
        if arguments[0].drivername == "sqlite+aiosqlite":
            options["connect_args"] = {**options.get("connect_args", {}), "check_same_thread": False}
        engine = create_async_engine(*arguments, **options)
        if engine.dialect.name == "sqlite":
            refuse_as_postgres(engine)
        kind = type(engine.sync_engine.dialect)
        # The dialect is part of each key, in the cache of the engine and in those of the mappers.
        patch.setattr(kind, "__eq__", lambda left, right: type(left) is type(right))
        patch.setattr(kind, "__hash__", lambda dialect: hash(type(dialect)))
        engine.sync_engine._compiled_cache = _compiled.setdefault(kind, LRUCache(_STATEMENTS))
        return engine

    def prepare_without_sync(connection: Any, record: Any) -> None:
        PREPARE_SQLITE(connection, record)
        cursor = connection.cursor()
        cursor.execute("PRAGMA synchronous=OFF")
        cursor.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "create_async_engine", create)
        patch.setattr(postgres, "create_async_engine", create)
        patch.setattr(database, "_prepare_sqlite", prepare_without_sync)
        patch.setattr(aiosqlite.Connection, "_execute", _execute)
        yield


@pytest.fixture(scope="module", autouse=True)
def engines_are_cheap() -> Iterator[None]:
    """Use cheap engines in the process of the tests; conftests import this. Programs that tests start have the
    product's own engines.

    Not of package scope: folders of tests are no packages here, and pytest would keep the fixture until the run ends.
    """
    with cheap_engines():
        yield


_execute_in_thread = aiosqlite.Connection._execute
_in_thread: "WeakKeyDictionary[aiosqlite.Connection, list[None]]" = WeakKeyDictionary()


async def _execute(connection: aiosqlite.Connection, call: Any, *arguments: Any, **options: Any) -> Any:
    """`aiosqlite.Connection._execute`, without the thread for calls that never wait for a lock.

    If a call of a cancelled caller still runs in the thread, this call queues behind it.
    """
    running = _in_thread.setdefault(connection, [])
    if not running and _never_waits(call):
        result = call(*arguments, **options)
        # Other tasks run between the calls of a statement, as in production.
        await asyncio.sleep(0)
        return result

    def call_in_thread() -> Any:
        try:
            return call(*arguments, **options)
        finally:
            running.pop()

    running.append(None)
    return await _execute_in_thread(connection, call_in_thread)


def _never_waits(call: Any) -> bool:
    owner, name = getattr(call, "__self__", None), getattr(call, "__name__", "")
    if isinstance(owner, sqlite3.Cursor):
        return name in ("fetchall", "close")
    if isinstance(owner, sqlite3.Connection):
        # commit and rollback do nothing outside a transaction.
        return name == "cursor" or (name in ("commit", "rollback") and not owner.in_transaction)
    return False
