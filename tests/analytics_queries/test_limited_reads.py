"""What one read of telemetry may cost: how many queries it runs, for how long together, and how large its answer is."""

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from analytics_queries.telemetry import limited_sql
from analytics_queries.telemetry.limited_sql import LIMITS, query_limited, share_time
from analytics_queries.telemetry.time_range import TimeRange, to_nanoseconds
from analytics_queries.telemetry.traces import TraceFilter, TraceKey, newest_traces
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from storage_backends.column_store.interface import QueryResult

NOW = datetime.now(UTC)


class _Asked:
    """Passes queries on, and remembers them."""

    def __init__(self, store: ChdbColumnStore | None = None) -> None:
        self._store = store
        self.asked: list[str] = []

    async def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> QueryResult:
        self.asked.append(sql)
        return QueryResult((), []) if self._store is None else await self._store.query(sql, parameters)


def _span(environment: str, trace: int, number: int, **since: float) -> dict[str, Any]:
    return {
        "EnvironmentId": environment,
        "Timestamp": (NOW - timedelta(**since)).isoformat(),
        "ReceivedAt": NOW.isoformat(),
        "TraceId": f"{trace:032x}",
        "SpanId": f"{number:016x}",
        "ParentSpanId": f"{1:016x}" if number > 1 else "",
        "SpanName": "job",
        "ServiceName": "api",
        "Duration": 1000,
        "log": environment,
        "log_offset": number,
    }


async def _insert(store: ChdbColumnStore, table: str, rows: list[dict[str, Any]]) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    await store.insert(f"pharos.{table}", lines, len(rows), uuid.uuid4().hex)


async def test_long_traces_make_no_more_queries(column_store: ChdbColumnStore) -> None:
    """Traces that began before the first window are listed at their start, and are not read page by page before."""
    environment, count = uuid.uuid4().hex, 300
    rows = [_span(environment, trace, 1, minutes=50, milliseconds=trace) for trace in range(count)]
    rows += [_span(environment, trace, 2, minutes=5, milliseconds=trace) for trace in range(count)]
    # One began in between, and one whose root span is not there.
    rows += [_span(environment, count, 1, minutes=5), _span(environment, count + 1, 2, minutes=5, seconds=-1)]
    await _insert(column_store, "otel_traces", rows)
    within = TimeRange(to_nanoseconds(NOW - timedelta(hours=1)), to_nanoseconds(NOW))
    expected = [count + 1, count, *range(count)]
    for limit in (1, 2, 50, count + 2):
        store: Any = _Asked(column_store)
        found = await newest_traces(store, environment, within, TraceFilter(), None, limit)
        assert [int(row["trace_id"], 16) for row in found] == expected[:limit]
        assert len(store.asked) <= 6
        # Also on the page after it.
        after = TraceKey(found[-1]["started_ns"], found[-1]["trace_id"])
        following = await newest_traces(store, environment, within, TraceFilter(service="api"), after, 2)
        assert [int(row["trace_id"], 16) for row in following] == expected[limit : limit + 2]
        assert len(store.asked) <= 12


async def test_queries_of_a_request_share_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(limited_sql, "monotonic", lambda: now[0])
    store: Any = _Asked()
    with share_time(25.0):
        for _ in range(3):
            await query_limited(store, f"SELECT 1{LIMITS}", {})
            now[0] += 12.0
        with pytest.raises(StorageUnavailable, match="all of their time"):
            await query_limited(store, f"SELECT 1{LIMITS}", {})
    await query_limited(store, f"SELECT 1{LIMITS}", {})
    seconds = [sql.split("max_execution_time = ")[1].split(",")[0] for sql in store.asked]
    assert seconds == ["20", "13", "1", "20"]
    assert all(
        sql.replace(f"= {each},", "= 20,") == f"SELECT 1{LIMITS}"
        for sql, each in zip(store.asked, seconds, strict=True)
    )
