"""A start that was killed while it applied the schema file for reads of telemetry, on a store with rows."""

import json
import uuid
from typing import Any

from storage_backends.column_store.apply_schema import read_schema, schema_files
from storage_backends.column_store.chdb_embedded import ChdbColumnStore

_AT = "2099-11-20T21:31:54Z"
_COUNT = (
    "SELECT source, count(), uniqExact(identity) FROM interrupted.exceptions GROUP BY source ORDER BY source"
)
_PROJECTIONS = (
    "SELECT DISTINCT name FROM system.projection_parts "
    "WHERE database = 'interrupted' AND active ORDER BY name"
)


async def test_an_interrupted_file_is_applied_again_and_counts_each_exception_once(
    column_store: ChdbColumnStore,
) -> None:
    """The rows are from before the file, from the time between both attempts, and from afterwards."""
    *earlier, last = (
        [statement.replace("pharos.", "interrupted.") for statement in read_schema(path)]
        for path in schema_files()
        if path.stem <= "0011_telemetry_reads"
    )
    await column_store.command("CREATE DATABASE interrupted")
    try:
        for statement in (each for file in earlier for each in file):
            await column_store.command(statement)
        await _insert(column_store, 1)
        backfills = [number for number, each in enumerate(last) if each.startswith("INSERT")]
        # Killed after the second of three tables.
        for statement in last[: backfills[1] + 1]:
            await column_store.command(statement)
        await _insert(column_store, 2)
        for statement in last:
            await column_store.command(
                f"{statement}\nSETTINGS mutations_sync = 1"
                if "MATERIALIZE" in statement and statement.startswith("ALTER")
                else statement
            )
        await _insert(column_store, 3)
        rows = (await column_store.query(_COUNT)).rows
        assert [(source, identities) for source, _, identities in rows] == [
            ("event", 3),
            ("log", 3),
            ("span", 3),
        ]
        assert [name for (name,) in (await column_store.query(_PROJECTIONS)).rows] == [
            "by_start",
            "group_times",
            "latency_by_hour",
            "metric_names_by_day",
            "names_by_day",
        ]
    finally:
        await column_store.command("DROP DATABASE interrupted")


async def _insert(store: ChdbColumnStore, offset: int) -> None:
    """Insert an exception into each table, and a metric."""
    own = {"EnvironmentId": "e", "Timestamp": _AT, "ReceivedAt": _AT, "log": "l", "log_offset": offset}
    rows: dict[str, dict[str, Any]] = {
        "telemetry_events": {
            "environment_id": "e",
            "type": "exception",
            "timestamp": _AT,
            "received_at": _AT,
            "title": "broken",
            "log": "l",
            "log_offset": offset,
        },
        "otel_traces": own
        | {
            "TraceId": "a" * 32,
            "SpanId": f"{offset:016x}",
            "Events.Timestamp": [_AT],
            "Events.Name": ["exception"],
            "Events.Attributes": [{"exception.message": "broken"}],
        },
        "otel_logs": own | {"Body": "broken", "LogAttributes": {"exception.type": "KeyError"}},
        "otel_metrics_gauge": {
            "EnvironmentId": "e",
            "TimeUnix": _AT,
            "ReceivedAt": _AT,
            "MetricName": "m",
            "Value": 1,
            "log": "l",
            "log_offset": offset,
        },
    }
    for table, row in rows.items():
        await store.insert(f"interrupted.{table}", json.dumps(row).encode() + b"\n", 1, uuid.uuid4().hex)
