"""A ClickHouse server as a `ColumnStore`, through clickhouse-connect's HTTP client.

Statements run concurrently on threads, without a session on the server. An insert is sent once. If its outcome is
unknown, the consumers check which rows are stored before they send it again with the same token (decision 1). So no
layer below the consumers may retry an insert.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

import clickhouse_connect
from backports import zstd
from clickhouse_connect import common
from clickhouse_connect.driver.exceptions import ClickHouseError, DatabaseError

from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.bound_values import bound_values
from storage_backends.column_store.engine_threads import run_shielded
from storage_backends.column_store.fault_codes import (
    fault_code,
    insert_fault,
    operator_query_fault,
    query_fault,
)
from storage_backends.column_store.insert_settings import MAX_BYTES, MAX_ROWS, one_block
from storage_backends.column_store.interface import Lines, QueryResult, bytes_of
from storage_backends.column_store.plain_values import plain_rows

T = TypeVar("T")

_CONCURRENT = 4
_CONNECT_SECONDS = 5
# Compression level: compressing 5 MB of rows takes 4.5 ms, and the server decompresses the rows faster than it parses
# them.
_LEVEL = -1

# This module decides which settings are sent: the client must not drop a deduplication token silently.
common.set_setting("invalid_setting_action", "send")
# Without these settings, an insert would not be stored exactly once or would have no deadline. The other settings fix
# where rows are cut into blocks. A server that does not know such a setting does not cut by it.
_NEEDED = {"insert_deduplication_token", "insert_deduplicate", "log_comment"}


class ClickHouseServer:
    """A `ColumnStore` on a server. Made by `open_clickhouse_server`."""

    def __init__(self, client: Any, cluster: str | None) -> None:
        self._client = client
        self.cluster = cluster
        self._inserting = ThreadPoolExecutor(_CONCURRENT, thread_name_prefix="clickhouse-insert")
        self._reading = ThreadPoolExecutor(_CONCURRENT, thread_name_prefix="clickhouse-query")
        self._closed = False

    async def insert(self, table: str, lines: Lines, rows: int, token: str, before: int = 0) -> None:
        size = bytes_of(lines)
        if rows > MAX_ROWS or size > MAX_BYTES:
            raise ValueError(f"{rows} rows, {size} bytes: more than one block holds")
        settings = {
            name: value
            for name, value in one_block(token, before).items()
            if name in _NEEDED or name in self._client.server_settings
        }
        # With this setting, the response status reports the end of the insert, not its start.
        settings["wait_end_of_query"] = 1
        if self.cluster is not None:
            # The check before an insert may query another replica than the one that received the rows. With this
            # setting, a block counts as stored once most replicas have it, and blocks are stored one after the other.
            settings |= {"insert_quorum": "auto", "insert_quorum_parallel": 0}

        def run() -> None:
            # Do not use `raw_insert`, which retries by itself when the connection breaks.
            self._client.command(
                # The table name is a constant of the code.
                f"INSERT INTO {table} FORMAT JSONEachRow",
                data=_compress(lines),
                settings=settings,
                transport_settings={"Content-Encoding": "zstd"},
            )

        try:
            await self._run_in(self._inserting, run)
        except DatabaseError as error:
            raise insert_fault(error) from error
        except (ClickHouseError, OSError) as error:
            raise StorageUnavailable(f"The insert failed: {error}") from error

    async def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> QueryResult:
        def run() -> QueryResult:
            result = self._client.query(
                sql, parameters=bound_values(parameters), settings=self._read_settings()
            )
            return QueryResult(
                tuple(result.column_names), plain_rows(result.result_rows, result.column_types)
            )

        return await self._checked(run)

    async def query_json_lines(self, sql: str) -> bytes:
        """Run an operator's query, which may not change anything. Return JSON, one row per line."""

        def run() -> bytes:
            rows: bytes = self._client.raw_query(
                sql, fmt="JSONEachRow", settings={**self._read_settings(), "readonly": 1}
            )
            return rows

        return await self._checked(run, operator_query_fault)

    async def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        try:
            await self._run_shielded(
                self._inserting, lambda: self._client.command(sql, parameters=bound_values(parameters))
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
        # Any replica may be queried: it responds only when it has all rows that most replicas have.
        return {} if self.cluster is None else {"select_sequential_consistency": 1}

    async def _checked(
        self, run: Callable[[], T], to_exception: Callable[[DatabaseError], Exception] = query_fault
    ) -> T:
        try:
            return await self._run_shielded(self._reading, run)
        except DatabaseError as error:
            if fault_code(error) is None:
                raise StorageUnavailable(f"The connection failed: {error}") from error
            raise to_exception(error) from error
        except (ClickHouseError, OSError) as error:
            raise StorageUnavailable(f"The query failed: {error}") from error

    async def _run_shielded(self, pool: ThreadPoolExecutor, run: Callable[[], T]) -> T:
        if self._closed:
            raise StorageUnavailable("The column store is closed.")
        return await run_shielded(pool, run)

    async def _run_in(self, pool: ThreadPoolExecutor, run: Callable[[], T]) -> T:
        if self._closed:
            raise StorageUnavailable("The column store is closed.")
        return await asyncio.get_running_loop().run_in_executor(pool, run)


def check_address(url: str) -> SplitResult:
    """Split the address of a server into its parts. Raises `ValueError` for an invalid address."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        # The message leaves out the address, which may contain a password.
        raise ValueError("The address of ClickHouse begins with http:// or https:// and names a host.")
    return parts


def _compress(lines: Lines) -> bytes:
    if isinstance(lines, bytes):
        return zstd.compress(lines, level=_LEVEL)
    compressor = zstd.ZstdCompressor(level=_LEVEL)
    return b"".join([*map(compressor.compress, lines), compressor.flush()])


async def open_clickhouse_server(
    url: str,
    *,
    cluster: str | None = None,
    statement_seconds: float = 60.0,
    defaults: Mapping[str, Any] | None = None,
) -> ClickHouseServer:
    """Open a client of the server at `http://user:password@host:8123` (or https).

    `cluster`: the cluster on which tables are created, with Replicated engines. `statement_seconds`: the time limit of
    a statement. `defaults`: settings for statements that do not set them. Raises `StorageUnavailable` when the server
    is unreachable, and `ValueError` for an invalid address.
    """
    parts = check_address(url)

    def connect() -> Any:
        return clickhouse_connect.get_client(
            interface=parts.scheme,
            host=parts.hostname,
            port=parts.port or (8443 if parts.scheme == "https" else 8123),
            username=unquote(parts.username or "default"),
            password=unquote(parts.password or ""),
            connect_timeout=_CONNECT_SECONDS,
            send_receive_timeout=statement_seconds,
            # Statements run concurrently. In a session, the server would run them one at a time.
            autogenerate_session_id=False,
            settings=dict(defaults or {}),
        )

    try:
        return ClickHouseServer(await asyncio.to_thread(connect), cluster)
    except (ClickHouseError, OSError) as error:
        where = f"{parts.hostname}:{parts.port or ''}"
        raise StorageUnavailable(f"ClickHouse at {where} does not answer: {error}") from error
