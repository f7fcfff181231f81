"""ClickHouse in this process (chDB), through clickhouse-connect's chdb interface.

Only one process may open a data path. Inserts, queries of operators, and each caller of `ChdbColumnStore.own_handles`
have separate engine handles and threads. So consumers, which insert and query, never wait for reports. The engine
releases the GIL while it works.
"""

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import clickhouse_connect
from clickhouse_connect.driver.exceptions import ClickHouseError, DatabaseError

from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.bound_values import bound_values
from storage_backends.column_store.chdb_operator_queries import query_once
from storage_backends.column_store.engine_threads import run_shielded
from storage_backends.column_store.fault_codes import insert_fault, query_fault
from storage_backends.column_store.insert_settings import MAX_BYTES, MAX_ROWS, one_block
from storage_backends.column_store.interface import ColumnStore, Lines, QueryResult, bytes_of
from storage_backends.column_store.plain_values import plain_rows

T = TypeVar("T")

# Number of concurrent queries. Planning one query keeps one core busy.
_READERS = 2
# Planning a query and reading from a cold disk take seconds: no caller waits longer than this. Statements have no such
# limit: the daily rollups of a large site may take minutes.
_QUERY_SECONDS = 60
# If the disk fills up during an insert, the engine reports success and leaves a part with empty files, on which every
# later query of the table fails. The free space must hold the largest block.
_MIN_FREE_BYTES = MAX_BYTES


class ChdbColumnStore:
    """The embedded engine as a `ColumnStore`. Made by `open_chdb`."""

    def __init__(self, writer: Any, handles: "_Handles", open_session: Callable[[], Any]) -> None:
        self._writer = writer
        self._handles = handles
        self._open_session = open_session
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="chdb-insert")
        self._operating = ThreadPoolExecutor(1, thread_name_prefix="chdb-operator")
        self._others: list[_Handles] = []
        self._closed = False

    async def own_handles(self, *, readers: int = 1) -> ColumnStore:
        """Return the same store with separate engine handles for queries and statements, so that the caller does not
        wait for other callers. Queries of the returned store are stopped after a minute. It closes together with this
        store. Raises `StorageUnavailable`."""

        def run() -> _Handles:
            commander, *own_readers = [self._open_session() for _ in range(1 + readers)]
            for reader in own_readers:
                reader.command(f"SET max_execution_time = {_QUERY_SECONDS}")
            return _Handles([commander, *own_readers])

        try:
            handles = await asyncio.to_thread(run)
        except (ClickHouseError, RuntimeError, OSError) as error:
            raise StorageUnavailable(f"No session for queries: {error}") from error
        self._others.append(handles)
        return _SameStore(self, handles)

    async def insert(self, table: str, lines: Lines, rows: int, token: str, before: int = 0) -> None:
        size = bytes_of(lines)
        if rows > MAX_ROWS or size > MAX_BYTES:
            raise ValueError(f"{rows} rows, {size} bytes: more than one block holds")

        def run() -> None:
            self._writer.raw_insert(
                table, insert_block=lines, fmt="JSONEachRow", settings=one_block(token, before)
            )

        try:
            await self._run_in(self._writing, run)
        except DatabaseError as error:
            raise insert_fault(error) from error
        except (ClickHouseError, OSError) as error:
            raise StorageUnavailable(f"The insert failed: {error}") from error

    async def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> QueryResult:
        return await self._handles.query(sql, parameters)

    async def query_json_lines(self, sql: str) -> bytes:
        """Run an operator's query in a session of its own. Return JSON, one row per line. Raises `StorageUnavailable`,
        and `QueryRefused` for anything but a single reading query within the limits."""
        return await self._run_in(self._operating, lambda: query_once(self._open_session, sql))

    async def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        await self._handles.command(sql, parameters)

    @contextlib.asynccontextmanager
    async def paused_inserts(self) -> AsyncIterator[None]:
        """Hold back inserts within the context. An insert that runs is completed first, and other inserts wait. Raises
        `StorageUnavailable`."""
        is_paused, resume = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        def hold() -> None:
            loop.call_soon_threadsafe(is_paused.set)
            resume.wait()

        holding = asyncio.ensure_future(self._run_in(self._writing, hold))
        waiting = asyncio.ensure_future(is_paused.wait())
        try:
            await asyncio.wait({holding, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if holding.done():
                await holding
            yield
        finally:
            resume.set()
            waiting.cancel()
            await asyncio.wait({holding})

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for pool in (self._operating, self._writing):
            await asyncio.to_thread(pool.shutdown)
        for handles in (self._handles, *self._others):
            await handles.close()
        await asyncio.to_thread(self._writer.close)

    async def _run_in(self, pool: ThreadPoolExecutor, run: Callable[[], T]) -> T:
        if self._closed:
            raise StorageUnavailable("The column store is closed.")
        return await asyncio.get_running_loop().run_in_executor(pool, run)


class _SameStore:
    """A column store with separate handles for queries and statements."""

    def __init__(self, store: ChdbColumnStore, handles: "_Handles") -> None:
        self._store = store
        self.query = handles.query
        self.command = handles.command

    async def insert(self, table: str, lines: Lines, rows: int, token: str, before: int = 0) -> None:
        await self._store.insert(table, lines, rows, token, before)

    async def close(self) -> None:
        """Do nothing: only the caller that opened the store closes it."""


class _Handles:
    """Engine sessions, each with a thread: the first session is for statements, the others are for queries."""

    def __init__(self, sessions: Sequence[Any]) -> None:
        self._commander, *self._readers = sessions
        self._free: SimpleQueue[Any] = SimpleQueue()
        for reader in self._readers:
            self._free.put(reader)
        self._reading = ThreadPoolExecutor(len(self._readers), thread_name_prefix="chdb-query")
        self._commanding = ThreadPoolExecutor(1, thread_name_prefix="chdb-statement")
        self._closed = False

    async def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> QueryResult:
        def run() -> QueryResult:
            with self._reader() as reader:
                result = reader.query(sql, parameters=bound_values(parameters))
            return QueryResult(
                tuple(result.column_names), plain_rows(result.result_rows, result.column_types)
            )

        return await self._checked(self._reading, run)

    async def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        def run() -> None:
            self._commander.command(sql, parameters=bound_values(parameters))

        await self._checked(self._commanding, run)

    async def close(self) -> None:
        self._closed = True
        for pool in (self._reading, self._commanding):
            await asyncio.to_thread(pool.shutdown)
        for session in (self._commander, *self._readers):
            await asyncio.to_thread(session.close)

    @contextlib.contextmanager
    def _reader(self) -> Iterator[Any]:
        """Borrow a handle that no other query uses. There is one for each thread of the pool."""
        reader = self._free.get()
        try:
            yield reader
        finally:
            self._free.put(reader)

    async def _checked(self, pool: ThreadPoolExecutor, run: Callable[[], T]) -> T:
        if self._closed:
            raise StorageUnavailable("The column store is closed.")
        try:
            return await run_shielded(pool, run)
        except DatabaseError as error:
            raise query_fault(error) from error
        except ClickHouseError as error:
            raise StorageUnavailable(f"The query failed: {error}") from error


async def open_chdb(path: Path) -> ChdbColumnStore:
    """Open or create the data folder at `path`. Raises `StorageUnavailable`, for example when another process uses
    it."""

    def open_session() -> Any:
        return clickhouse_connect.get_client(
            interface="chdb",
            path=str(path),
            settings={"max_threads": 2, "min_free_disk_bytes_to_perform_insert": _MIN_FREE_BYTES},
        )

    def run() -> list[Any]:
        path.mkdir(parents=True, exist_ok=True)
        with _without_pyarrow():
            return [open_session() for _ in range(2 + _READERS)]

    opening = asyncio.create_task(asyncio.to_thread(run))
    try:
        try:
            writer, *sessions = await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The opening thread continues. Wait for it, because the engine must not stay open when the process ends.
            await asyncio.wait({opening})
            if opening.exception() is None:
                for handle in opening.result():
                    await asyncio.to_thread(handle.close)
            raise
        return ChdbColumnStore(writer, _Handles(sessions), open_session)
    except (ClickHouseError, RuntimeError, OSError) as error:
        raise StorageUnavailable(f"The column store at {path} cannot be opened: {error}") from error


@contextlib.contextmanager
def _without_pyarrow() -> Iterator[None]:
    """Hide pyarrow from chDB. If pyarrow is installed, chDB imports it for data frames, which Pharos does not use and
    which take 40 MB."""
    if "pyarrow" in sys.modules:
        yield
        return
    sys.modules["pyarrow"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["pyarrow"]
