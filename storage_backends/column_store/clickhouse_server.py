"""A ClickHouse server, through clickhouse-connect's HTTP client.

Statements run side by side on threads, without a session on the server. An insert is sent once: when its outcome
is open the consumers look at what is stored before they send it again with the same token (decision 1), so nothing
below them may send it again unseen.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import clickhouse_connect
from backports import zstd
from clickhouse_connect import common
from clickhouse_connect.driver.exceptions import ClickHouseError, DatabaseError

from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.engine_threads import run_to_end
from storage_backends.column_store.fault_codes import ENGINE_FAULTS, fault_code, insert_fault
from storage_backends.column_store.insert_settings import MAX_BYTES, MAX_ROWS, one_block
from storage_backends.column_store.interface import QueryRefused, QueryResult
from storage_backends.column_store.plain_values import plain

T = TypeVar("T")

_AT_ONCE = 4
_CONNECT_SECONDS = 5
# 4.5 ms for 5 MB of rows; the server undoes it faster than it parses the rows.
_LEVEL = -1

# What is sent is decided here: dropped by the client unseen, a token would be missed too late.
common.set_setting("invalid_setting_action", "send")
# Without these an insert is not stored once, or has no deadline. The others pin where a block is cut; a server that
# does not know one of them does not cut by it.
_NEEDED = {"insert_deduplication_token", "insert_deduplicate", "log_comment"}


class ClickHouseServer:
    """Made by `open_clickhouse_server`."""

    def __init__(self, client: Any, cluster: str | None) -> None:
        self._client = client
        self.cluster = cluster
        self._inserting = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="clickhouse-insert")
        self._reading = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="clickhouse-query")
        self._closed = False

    async def insert(self, table: str, lines: bytes, rows: int, token: str, before: int = 0) -> None:
        if rows > MAX_ROWS or len(lines) > MAX_BYTES:
            raise ValueError(f"{rows} rows, {len(lines)} bytes: more than one block holds")
        settings = {
            name: value
            for name, value in one_block(token, before).items()
            if name in _NEEDED or name in self._client.server_settings
        }
        # The answer's status is the outcome, not that it has begun.
        settings["wait_end_of_query"] = 1
        if self.cluster is not None:
            # The look before an insert may ask another replica than the one that took the rows: most of them have
            # to hold a block before it counts as stored, one block after the other.
            settings |= {"insert_quorum": "auto", "insert_quorum_parallel": 0}

        def run() -> None:
            # Not `raw_insert`: that one sends the block again by itself when the connection is cut.
            self._client.command(
                # The name is one of ours, out of the code.
                f"INSERT INTO {table} FORMAT JSONEachRow",
                data=zstd.compress(lines, level=_LEVEL),
                settings=settings,
                transport_settings={"Content-Encoding": "zstd"},
            )

        try:
            await self._in(self._inserting, run)
        except DatabaseError as error:
            raise insert_fault(error) from error
        except (ClickHouseError, OSError) as error:
            raise StorageUnavailable(f"The insert failed: {error}") from error

    async def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> QueryResult:
        def run() -> QueryResult:
            result = self._client.query(
                sql, parameters=dict(parameters or {}), settings=self._read_settings()
            )
            return QueryResult(
                tuple(result.column_names), [[plain(v) for v in row] for row in result.result_rows]
            )

        return await self._checked(run)

    async def query_json_lines(self, sql: str) -> bytes:
        """Run a query as an operator wrote it, without the right to change anything; JSON, one row a line."""

        def run() -> bytes:
            rows: bytes = self._client.raw_query(
                sql, fmt="JSONEachRow", settings={**self._read_settings(), "readonly": 1}
            )
            return rows

        return await self._checked(run)

    async def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        try:
            await self._to_end(
                self._inserting, lambda: self._client.command(sql, parameters=dict(parameters or {}))
            )
        except (ClickHouseError, OSError) as error:
            raise StorageUnavailable(f"The statement failed: {error}") from error

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await asyncio.to_thread(self._inserting.shutdown)
        await asyncio.to_thread(self._reading.shutdown)
        await asyncio.to_thread(self._client.close)

    def _read_settings(self) -> dict[str, Any]:
        # Any replica may be asked: it answers only when it has all that most of them have.
        return {} if self.cluster is None else {"select_sequential_consistency": 1}

    async def _checked(self, run: Callable[[], T]) -> T:
        try:
            return await self._to_end(self._reading, run)
        except DatabaseError as error:
            code = fault_code(error)
            # Without a code it is the connection's fault.
            if code is None or code in ENGINE_FAULTS:
                raise StorageUnavailable(f"The query failed: {error}") from error
            raise QueryRefused(str(error)) from error
        except (ClickHouseError, OSError) as error:
            raise StorageUnavailable(f"The query failed: {error}") from error

    async def _to_end(self, pool: ThreadPoolExecutor, run: Callable[[], T]) -> T:
        if self._closed:
            raise StorageUnavailable("The column store is closed.")
        return await run_to_end(pool, run)

    async def _in(self, pool: ThreadPoolExecutor, run: Callable[[], T]) -> T:
        if self._closed:
            raise StorageUnavailable("The column store is closed.")
        return await asyncio.get_running_loop().run_in_executor(pool, run)


async def open_clickhouse_server(
    url: str,
    *,
    cluster: str | None = None,
    statement_seconds: float = 60.0,
    defaults: Mapping[str, Any] | None = None,
) -> ClickHouseServer:
    """A client of the server at `http://user:password@host:8123` (or https).

    `cluster`: tables are made there, with Replicated engines. `statement_seconds`: time that a statement may take.
    `defaults`: settings of each statement that does not say otherwise. Raises `StorageUnavailable` when the server
    is away, and `ValueError` for an address that is none.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        # Without the address: it may hold a password.
        raise ValueError("The address of ClickHouse begins with http:// or https:// and names a host.")

    def connect() -> Any:
        return clickhouse_connect.get_client(
            interface=parts.scheme,
            host=parts.hostname,
            port=parts.port or (8443 if parts.scheme == "https" else 8123),
            username=unquote(parts.username or "default"),
            password=unquote(parts.password or ""),
            connect_timeout=_CONNECT_SECONDS,
            send_receive_timeout=statement_seconds,
            # Statements run side by side: a session on the server would take them one at a time.
            autogenerate_session_id=False,
            settings=dict(defaults or {}),
        )

    try:
        return ClickHouseServer(await asyncio.to_thread(connect), cluster)
    except (ClickHouseError, OSError) as error:
        where = f"{parts.hostname}:{parts.port or ''}"
        raise StorageUnavailable(f"ClickHouse at {where} does not answer: {error}") from error
