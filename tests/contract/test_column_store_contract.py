"""Behaviour of every column store. A new engine is one more parameter of the fixture."""

import asyncio
import json
import os
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from analytics_queries.store_clock import store_time_ms
from pipeline_contracts.errors import InsertTooLate, RowsRefused, StorageUnavailable
from storage_backends.column_store.apply_schema import apply_schema, read_schema, schema_files
from storage_backends.column_store.chdb_embedded import ChdbColumnStore, open_chdb
from storage_backends.column_store.clickhouse_server import open_clickhouse_server
from storage_backends.column_store.interface import ColumnStore, QueryRefused
from tests.support import fork_server
from tests.support.clickhouse_front import running_clickhouse_front

TABLE = "pharos.telemetry_events"

WithDefaults = Callable[[dict[str, int]], AbstractAsyncContextManager[ColumnStore]]


@pytest.fixture(params=["embedded", "server"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def store(
    engine: str, column_store: ChdbColumnStore, clickhouse_url: str
) -> AsyncIterator[ColumnStore]:
    if engine == "embedded":
        yield column_store
        return
    server = await open_clickhouse_server(clickhouse_url)
    await apply_schema(server)
    yield server
    await server.close()


@pytest.fixture
def with_defaults(engine: str, store: ColumnStore, clickhouse_url: str) -> WithDefaults:
    """The same data through a session with other settings."""
    if engine == "embedded":
        return lambda defaults: _embedded_with(store, defaults)
    return lambda defaults: _server_with(clickhouse_url, defaults)


@asynccontextmanager
async def _embedded_with(store: ColumnStore, defaults: dict[str, int]) -> AsyncIterator[ColumnStore]:
    before = {name: (await store.query(f"SELECT getSetting('{name}')")).rows[0][0] for name in defaults}
    try:
        for name, value in defaults.items():
            await store.command(f"SET {name} = {value}")
        yield store
    finally:
        for name, value in before.items():
            await store.command(f"SET {name} = '{int(value) if isinstance(value, bool) else value}'")


@asynccontextmanager
async def _server_with(url: str, defaults: dict[str, int]) -> AsyncIterator[ColumnStore]:
    server = await open_clickhouse_server(url, defaults=defaults)
    yield server
    await server.close()


def rows(log: str, count: int, *, offset: int = 0, padding: int = 0) -> bytes:
    # Far in the future, so that the store never removes the rows for their age.
    line = {"log": log, "log_offset": offset, "type": "log", "received_at": "2099-11-20T21:31:54.123Z"}
    return b"".join(
        json.dumps(
            {**line, "position": n, "timestamp": "2026-11-20T21:31:54Z", "title": "x" * padding}
        ).encode()
        + b"\n"
        for n in range(count)
    )


async def count(store: ColumnStore, log: str) -> int:
    result = await store.query(f"SELECT count() FROM {TABLE} WHERE log = {{log:String}}", {"log": log})
    return int(result.rows[0][0])


async def test_the_same_token_is_stored_once(store: ColumnStore) -> None:
    log = uuid.uuid4().hex
    for _ in range(3):
        await store.insert(TABLE, rows(log, 5), 5, log)
    assert await count(store, log) == 5


async def test_equal_rows_under_other_tokens_are_kept(store: ColumnStore) -> None:
    log = uuid.uuid4().hex
    for n in range(3):
        await store.insert(TABLE, rows(log, 5), 5, f"{log}{n}")
    assert await count(store, log) == 15


@pytest.mark.parametrize(
    "defaults",
    [
        {"max_block_size": 1000, "max_insert_block_size": 1000, "min_insert_block_size_rows": 1},
        {"input_format_parallel_parsing": 1, "max_threads": 2, "max_insert_threads": 2},
        {"min_insert_block_size_bytes": 1, "async_insert": 1, "insert_deduplicate": 0},
        {"max_insert_block_size_bytes": 1000, "input_format_max_block_size_bytes": 1000},
    ],
)
async def test_large_insert_is_one_block_with_any_session_settings(
    store: ColumnStore, with_defaults: WithDefaults, defaults: dict[str, int]
) -> None:
    log = uuid.uuid4().hex
    lines = rows(log, 30_000, padding=60)
    assert len(lines) > 3_000_000
    await store.insert(TABLE, lines, 30_000, log)
    async with with_defaults(defaults) as other:
        await other.insert(TABLE, lines, 30_000, log)
    assert await count(store, log) == 30_000


async def test_one_bad_row_refuses_the_whole_insert(store: ColumnStore) -> None:
    log = uuid.uuid4().hex
    bad = json.dumps({"log": log, "log_offset": "nonsense"}).encode() + b"\n"
    with pytest.raises(RowsRefused):
        await store.insert(TABLE, rows(log, 100) + bad + rows(log, 100), 201, log)
    assert await count(store, log) == 0


async def test_a_refused_token_may_be_used_again(store: ColumnStore) -> None:
    log = uuid.uuid4().hex
    with pytest.raises(RowsRefused):
        await store.insert(TABLE, b'{"log_offset": "nonsense"}\n', 1, log)
    await store.insert(TABLE, rows(log, 2), 2, log)
    assert await count(store, log) == 2


async def test_an_insert_after_its_deadline_is_refused(store: ColumnStore) -> None:
    log = uuid.uuid4().hex
    now_ms = await store_time_ms(store)
    assert abs(now_ms - time.time_ns() // 10**6) < 60_000
    # This must not be reported as a fault of the rows, because the consumer would store them as dead letters.
    with pytest.raises(InsertTooLate):
        await store.insert(TABLE, rows(log, 5), 5, log, now_ms // 1000)
    assert await count(store, log) == 0
    # The token is unchanged, and the deadline of one insert does not apply to the next one.
    for before in (now_ms // 1000 + 600, now_ms // 1000 + 900, 0):
        await store.insert(TABLE, rows(log, 5), 5, log, before)
        assert await count(store, log) == 5


async def test_insert_whose_rows_arrive_after_the_deadline_is_refused(
    column_store: ChdbColumnStore, tmp_path: Path
) -> None:
    """The statement begins before the deadline, and the sender pauses in the middle of the rows."""
    log = uuid.uuid4().hex
    pipe = tmp_path / "rows.json"
    os.mkfifo(pipe)
    before = await store_time_ms(column_store) // 1000 + 2
    inserting = asyncio.create_task(
        column_store.command(
            f"INSERT INTO {TABLE} FROM INFILE '{pipe}' "
            f"SETTINGS log_comment = 'insert before {before}' FORMAT JSONEachRow"
        )
    )
    lines = rows(log, 2)
    with await asyncio.to_thread(open, pipe, "wb", 0) as sending:
        sending.write(lines[:50])
        while await store_time_ms(column_store) < 1000 * before:
            await asyncio.sleep(0.05)
        sending.write(lines[50:])
    with pytest.raises(QueryRefused, match="inserted_in_time"):
        await inserting
    assert await count(column_store, log) == 0


async def test_parameters_are_bound(store: ColumnStore) -> None:
    for hostile in ("' OR 1=1 --", "\\' OR 1=1", "{log:String}", "a\0b", "\n\t", "æ🙈"):
        sql = "SELECT {text:String} AS text, {many:Array(String)} AS many"
        (row,) = (await store.query(sql, {"text": hostile, "many": [hostile, "b"]})).records()
        assert row == {"text": hostile, "many": [hostile, "b"]}


async def test_a_parameter_may_be_longer_than_an_address(store: ColumnStore) -> None:
    many = [f"{n:040d}" for n in range(2000)]
    result = await store.query(
        "SELECT length({many:Array(String)}), {many:Array(String)}[-1]", {"many": many}
    )
    assert list(result.rows[0]) == [2000, many[-1]]


async def test_a_wrong_query_is_refused(store: ColumnStore) -> None:
    with pytest.raises(QueryRefused):
        await store.query("SELECT (")


async def test_a_missing_table_is_not_the_fault_of_the_query(store: ColumnStore) -> None:
    """A table is missing if the store was emptied, or restored from a backup of an earlier version."""
    for sql in (
        "SELECT 1 FROM pharos.nowhere",
        "SELECT 1 FROM nowhere.traces",
        "SELECT nothing FROM pharos.otel_traces",
    ):
        with pytest.raises(StorageUnavailable, match="run `pharos migrate`"):
            await store.query(sql)


async def test_times_come_back_in_utc(store: ColumnStore) -> None:
    sql = "SELECT toDateTime64('2026-11-20 21:31:54.123', 3, 'UTC') AS at"
    (row,) = (await store.query(sql)).records()
    assert row["at"].isoformat() == "2026-11-20T21:31:54.123000+00:00"


async def test_times_in_arrays_are_aware_utc(store: ColumnStore) -> None:
    result = await store.query("SELECT [toDateTime64('2026-11-20 21:31:54.123', 3, 'UTC')] AS listed")
    assert result.rows[0][0] == [datetime(2026, 11, 20, 21, 31, 54, 123000, tzinfo=UTC)]


async def test_the_schema_is_applied_once(store: ColumnStore) -> None:
    assert await apply_schema(store) == []
    (row,) = (await store.query("SELECT count(), uniqExact(name) FROM pharos.applied_schema")).rows
    assert row[0] == row[1]


async def test_exceptions_of_more_than_a_hundred_days_are_copied_to_their_own_table(
    store: ColumnStore,
) -> None:
    """`pharos migrate` copies the exceptions that were stored before the table existed. Telemetry may be retained for
    years."""
    await store.command(
        "INSERT INTO pharos.telemetry_events "
        "(environment_id, timestamp, received_at, type, title, log, log_offset, attributes) "
        # In the future, because past telemetry would expire here.
        "SELECT 'env_kept', now64(3) + toIntervalDay(number), now64(3) + toIntervalDay(number), 'exception', "
        "'boom', 'kept', number, '{}' FROM numbers(150) SETTINGS max_partitions_per_insert_block = 0, "
        "parallel_view_processing = 0, materialized_views_ignore_errors = 1"
    )
    (copy,) = [
        statement
        for statement in read_schema(schema_files()[10])
        if statement.startswith("INSERT") and "exceptions_of_events" in statement
    ]
    await store.command(copy)


async def test_reports_read_both_tables_of_daily_rollups_as_one(store: ColumnStore) -> None:
    # Reports join the tables with UNION ALL and SELECT *, which matches columns by position.
    sql = (
        "SELECT table, groupArray((name, type)) FROM (SELECT table, name, type FROM system.columns "
        "WHERE database = 'pharos' AND table IN ('visit_days', 'open_visit_days') ORDER BY table, position) "
        "GROUP BY table"
    )
    finished, unfinished = [columns for _, columns in (await store.query(sql)).rows]
    assert finished == unfinished and len(finished) > 5


async def test_every_table_that_the_consumers_fill_has_deadlines_and_a_window_of_tokens(
    store: ColumnStore,
) -> None:
    # The other tables are rollups of these. A rollup that was computed twice is read once.
    sql = (
        "SELECT name FROM system.tables WHERE database = 'pharos' "
        "AND engine NOT IN ('View', 'MaterializedView') "
        "AND name NOT IN ('applied_schema', 'visit_days', 'open_visit_days', 'visit_day_lists', 'told_days', "
        "'visit_day_figures', 'visit_day_events') "
        "AND (create_table_query NOT LIKE '%non_replicated_deduplication_window = 10000%' "
        # The target of a view receives only rows that the table of the view has accepted.
        "OR name NOT IN ('otel_traces_trace_id_ts', 'exceptions') "
        "AND create_table_query NOT LIKE '%CONSTRAINT inserted_in_time CHECK%nowInBlock()%')"
    )
    assert (await store.query(sql)).rows == []


def test_a_token_holds_over_a_restart(tmp_path: Path) -> None:
    for _ in range(2):
        done = fork_server.run(
            [sys.executable, "-m", "tests.contract.test_column_store_contract", str(tmp_path)],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=110,
        )
        assert done.stdout.split() == ["20000"], done.stderr


async def test_a_token_holds_over_a_restart_of_the_server(tmp_path: Path) -> None:
    for _ in range(2):
        with running_clickhouse_front(tmp_path) as front:
            server = await open_clickhouse_server(front.url)
            await apply_schema(server)
            await server.insert(TABLE, rows("log", 20_000, padding=100), 20_000, "token")
            assert await count(server, "log") == 20_000
            await server.close()


async def _insert_in_new_process(folder: Path) -> None:
    store = await open_chdb(folder)
    await apply_schema(store)
    await store.insert(TABLE, rows("log", 20_000, padding=100), 20_000, "token")
    print(await count(store, "log"))
    await store.close()


if __name__ == "__main__":
    asyncio.run(_insert_in_new_process(Path(sys.argv[1])))
