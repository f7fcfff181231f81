"""The OpenTelemetry tables, compared with those of the Collector's ClickHouse exporter, column by column."""

import json
import re
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest

from storage_backends.column_store.apply_schema import read_schema, schema_files
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from storage_backends.column_store.replicated_schema import replicate
from tests.support.engines import skip_if_missing
from tests.support.otel_clickhouse_exporter import exporter_statements

UPSTREAM = "otel_exporter"
_AT = "2099-11-20T21:31:54.123Z"

# Intentional differences: the type here, and that of the exporter. All maps and times differ as well, see `_as_ours`.
_DIFFERENT = {
    # Few names on many rows.
    ("otel_logs", "EventName"): ("LowCardinality(String)", "CODEC(ZSTD(1))", "String", "CODEC(ZSTD(1))"),
    # Mostly small numbers.
    ("otel_traces", "Duration"): ("UInt64", "CODEC(T64, ZSTD(1))", "UInt64", "CODEC(ZSTD(1))"),
    # Delta encoding has no use for these values.
    ("otel_metrics_sum", "IsMonotonic"): ("Bool", "CODEC(ZSTD(1))", "Bool", "CODEC(Delta(1), ZSTD(1))"),
}
_COLUMNS = """
SELECT table, name, type, default_kind, default_expression, compression_codec FROM system.columns
WHERE database = {database:String} AND table LIKE 'otel_%' ORDER BY table, position
"""
_INDICES = """
SELECT table, name, type_full, expr, granularity FROM system.data_skipping_indices
WHERE database = {database:String} AND table LIKE 'otel_%' ORDER BY table, name
"""


@pytest.fixture(scope="module")
async def upstream(column_store: ChdbColumnStore) -> AsyncIterator[str]:
    with skip_if_missing():
        statements = exporter_statements(UPSTREAM)
    await column_store.command(f"CREATE DATABASE {UPSTREAM}")
    for statement in statements:
        await column_store.command(statement)
    yield UPSTREAM
    await column_store.command(f"DROP DATABASE {UPSTREAM}")


async def _told(store: ChdbColumnStore, sql: str, database: str) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Return the columns by table and name."""
    rows = (await store.query(sql, {"database": database})).rows
    return {(row[0], row[1]): tuple(row[2:]) for row in rows}


def _as_ours(table: str, column: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the exporter's column as it is declared here.

    Keys of maps are plain strings (decision 11), times are UTC, and those of metrics have nanoseconds.
    """
    kind, *default, codec = column
    kind = kind.replace("Map(LowCardinality(String), String)", "Map(String, String)")
    kind = kind.replace("DateTime64(9)", "DateTime64(9, 'UTC')")
    if table.startswith("otel_metrics_"):
        if kind == "DateTime":
            codec = "CODEC(Delta(8), ZSTD(1))"
        kind = re.sub(r"DateTime(?!64)", "DateTime64(9, 'UTC')", kind)
    return (re.sub(r"^DateTime$", "DateTime('UTC')", kind), *default, codec)


async def test_every_column_of_the_exporter_is_here(column_store: ChdbColumnStore, upstream: str) -> None:
    theirs = await _told(column_store, _COLUMNS, upstream)
    ours = await _told(column_store, _COLUMNS, "pharos")
    assert len({table for table, _ in theirs}) == 9 and len(theirs) > 150
    missing = [key for key in theirs if key not in ours]
    assert missing == []
    # A view has the columns of its query; the table that receives the rows is compared.
    stored = {key: column for key, column in theirs.items() if not key[0].endswith("_mv")}
    different = {
        key: (ours[key][0], ours[key][-1], expected[0], expected[-1])
        for key, column in stored.items()
        if ours[key] != (expected := _as_ours(key[0], column))
    }
    assert different == _DIFFERENT


async def test_every_index_of_the_exporter_is_here(column_store: ChdbColumnStore, upstream: str) -> None:
    theirs = await _told(column_store, _INDICES, upstream)
    ours = await _told(column_store, _INDICES, "pharos")
    assert len(theirs) == 50
    assert {key: ours.get(key) for key in theirs} == theirs


async def test_migrated_data_folder_equals_a_new_one(column_store: ChdbColumnStore) -> None:
    files = schema_files()
    before = [path for path in files if path.stem < "0009"]

    async def apply(path: Any) -> None:
        for statement in read_schema(path):
            await column_store.command(statement.replace("pharos.", "older."))

    await column_store.command("CREATE DATABASE older")
    try:
        for path in before:
            await apply(path)
        trace = {"TraceId": "0a" * 16, "EnvironmentId": "env", "ReceivedAt": _AT}
        spans = [{**trace, "Timestamp": f"17950000{n}0000000000"} for n in range(3)]
        log = {"Timestamp": _AT, "ReceivedAt": _AT, "ResourceAttributes": {"k8s.pod.name": "web-1"}}
        await column_store.insert("older.otel_traces", _lines(spans), 3, "spans")
        await column_store.insert("older.otel_logs", _lines([log]), 1, "logs")
        # Run it twice, because a migration that a crash has interrupted begins again.
        for path in [path for path in files if path not in before] * 2:
            await apply(path)
        # Readers use the smallest Start and the largest End, so a duplicate row changes nothing.
        times = "SELECT TraceId, min(Start), max(End) FROM older.otel_traces_trace_id_ts GROUP BY TraceId"
        rows = (await column_store.query(times)).rows
        assert [(row[0], (row[2] - row[1]).total_seconds()) for row in rows] == [("0a" * 16, 20)]
        pods = "SELECT `__otel_materialized_k8s.pod.name` FROM older.otel_logs"
        assert (await column_store.query(pods)).rows == [["web-1"]]
        for sql in (_COLUMNS, _INDICES):
            assert await _told(column_store, sql, "older") == await _told(column_store, sql, "pharos")
    finally:
        await column_store.command("DROP DATABASE older")


def _lines(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


async def test_a_trace_is_found_by_its_id_alone(column_store: ChdbColumnStore) -> None:
    environment, trace, other = (secrets.token_hex(16) for _ in range(3))
    row = {"EnvironmentId": environment, "ReceivedAt": _AT, "log": environment}
    # The clock of the last one is beyond the range of DateTime.
    times = [1795000000_900000000, 1795000007_100000000, 1795090000_000000000, 9_200_000_000_000_000_000]
    ids = [trace, trace, other, secrets.token_hex(16)]
    spans = [
        {**row, "TraceId": ids[n], "SpanId": f"{n:016x}", "Timestamp": str(times[n]), "log_offset": n}
        for n in range(4)
    ]
    for _ in range(3):
        await column_store.insert("pharos.otel_traces", _lines(spans), 4, f"{environment}/first")
    own = "SELECT count(), uniqExact(TraceId) FROM pharos.otel_traces_trace_id_ts WHERE EnvironmentId = {e:String}"
    # A repeat adds nothing to the view's table either.
    assert (await column_store.query(own, {"e": environment})).rows == [[3, 3]]
    late = [{**spans[0], "SpanId": "ff" * 8, "Timestamp": str(1795000001_000000000), "log_offset": 9}]
    await column_store.insert("pharos.otel_traces", _lines(late), 1, f"{environment}/second")
    # The queries of Grafana's ClickHouse data source and of HyperDX.
    grafana = """
        WITH {trace:String} AS trace_id,
            (SELECT min(Start) FROM pharos.otel_traces_trace_id_ts WHERE TraceId = trace_id) AS trace_start,
            (SELECT max(End) + 1 FROM pharos.otel_traces_trace_id_ts WHERE TraceId = trace_id) AS trace_end
        SELECT TraceId AS traceID, SpanId AS spanID, ParentSpanId AS parentSpanID, ServiceName AS serviceName,
            SpanName AS operationName, Timestamp AS startTime, multiply(Duration, 0.000001) AS duration
        FROM pharos.otel_traces
        WHERE traceID = trace_id AND startTime >= trace_start AND startTime <= trace_end
        ORDER BY startTime LIMIT 1000
    """
    found = (await column_store.query(grafana, {"trace": trace})).records()
    assert [span["spanID"] for span in found] == [f"{0:016x}", "ff" * 8, f"{1:016x}"]


def test_cluster_gets_all_tables() -> None:
    (path,) = [path for path in schema_files() if path.stem.endswith("_otel_lookups")]
    for statement in read_schema(path):
        made = replicate(statement, "main")
        assert ("ON CLUSTER 'main'" in made) != made.startswith("INSERT")
        assert "ENGINE = MergeTree" not in made and "non_replicated" not in made
