"""Limits of one read of telemetry: the number of queries, their total time, and the size of the result."""

import asyncio
import json
import math
import random
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from analytics_queries.telemetry import limited_sql, trace_spans
from analytics_queries.telemetry import metric_series as metric_series_module
from analytics_queries.telemetry.limited_sql import (
    LIMITS,
    command_limited,
    query_limited,
    run_together,
    share_time,
)
from analytics_queries.telemetry.metric_names import metric_names
from analytics_queries.telemetry.metric_series import Aggregation, SeriesRequest, metric_series
from analytics_queries.telemetry.time_range import TimeRange, to_nanoseconds
from analytics_queries.telemetry.traces import TraceFilter, TraceKey, newest_traces
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from storage_backends.column_store.interface import QueryResult

NOW = datetime.now(UTC)
_HOUR = TimeRange(to_nanoseconds(NOW - timedelta(hours=1)), to_nanoseconds(NOW))


class _Asked:
    """Forwards queries, and records them."""

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
    """Traces that began before the first window are listed at their start, without further queries before it."""
    environment, count = uuid.uuid4().hex, 300
    rows = [_span(environment, trace, 1, minutes=50, milliseconds=trace) for trace in range(count)]
    rows += [_span(environment, trace, 2, minutes=5, milliseconds=trace) for trace in range(count)]
    # One trace began in between, and one trace has no root span.
    rows += [_span(environment, count, 1, minutes=5), _span(environment, count + 1, 2, minutes=5, seconds=-1)]
    await _insert(column_store, "otel_traces", rows)
    within = TimeRange(to_nanoseconds(NOW - timedelta(hours=1)), to_nanoseconds(NOW))
    expected = [count + 1, count, *range(count)]
    for limit in (1, 2, 50, count + 2):
        store: Any = _Asked(column_store)
        found = await newest_traces(store, environment, within, TraceFilter(), None, limit)
        assert [int(row["trace_id"], 16) for row in found] == expected[:limit]
        assert len(store.asked) <= 6
        # The same holds on the next page.
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


async def test_a_large_result_is_refused(column_store: ChdbColumnStore) -> None:
    sql = f"SELECT concat(repeat('x', 1000000), toString(number)) FROM numbers({{rows:UInt32}}){LIMITS}"
    assert len((await query_limited(column_store, sql, {"rows": 10})).rows) == 10
    with pytest.raises(StorageUnavailable, match="too large"):
        await query_limited(column_store, sql, {"rows": 80})


async def test_a_statement_of_a_request_has_the_time_and_the_memory_of_its_queries(
    column_store: ChdbColumnStore,
) -> None:
    rows = "INSERT INTO FUNCTION null('x UInt64') SELECT {} FROM numbers({{rows:UInt64}})"
    many = {"rows": 10**12}
    with share_time(2.5):
        await command_limited(column_store, rows.format("number"), {"rows": 10})
        with pytest.raises(StorageUnavailable, match="memory"):
            await command_limited(column_store, rows.format("length(groupArray(repeat('x', 1000000)))"), many)
    with share_time(1.5), pytest.raises(StorageUnavailable, match="(?i)timeout"):
        await command_limited(column_store, rows.format("sum(number)"), many, is_large=True)
    with share_time(0.5), pytest.raises(StorageUnavailable, match="all of their time"):
        await command_limited(column_store, rows.format("number"), {"rows": 10})


async def test_large_trace_ends_with_spans_without_attributes(
    column_store: ChdbColumnStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys and names count like values."""
    monkeypatch.setattr(trace_spans, "_LONGEST_TRACE", 30_000)
    environment = uuid.uuid4().hex
    long, longer = "x" * 3000, "y" * 5000
    rows = [
        {
            **_span(environment, 1, number, minutes=5, milliseconds=-number),
            "SpanName": longer,
            "ServiceName": longer,
            "StatusMessage": long,
            "SpanAttributes": {long: "1"} if number > 1 else {longer: "1"},
            "Events.Timestamp": [NOW.isoformat()] * 2,
            "Events.Name": [longer] * 2,
            "Events.Attributes": [{"a": long}, {longer: ""}],
        }
        for number in range(1, 7)
    ]
    await _insert(column_store, "otel_traces", rows)
    spans = await trace_spans.trace_spans(column_store, environment, f"{1:032x}", 10)
    whole = ({long: "1"}, ["y" * 500] * 2, [{"a": long}, {}], 3000)
    bare = ({}, [], [], 500)
    expected = [({}, *whole[1:]), whole, whole, bare, bare, bare]
    found = [
        (each["attributes"], each["event_names"], each["event_attributes"], len(each["status_message"]))
        for each in spans
    ]
    assert found == expected
    assert {len(each[name]) for each in spans for name in ("name", "service")} == {500}


def _expected_quantile(bounds: Sequence[float], counts: Sequence[float], quantile: float) -> float | None:
    """Return the value below which this share of the values lies, or None without values.

    A bucket holds the values up to its bound and above the bound before; values are taken to be spread evenly in it,
    as Prometheus' `histogram_quantile` does. The first bucket begins at 0, or at its bound if that is negative; the
    value in a bucket without an upper bound is its lower one. `bounds` are ascending. A count may be negative where
    buckets of other bounds were subtracted.
    """
    totals: list[float] = []
    total = 0.0
    highest = 0.0
    for count in counts:
        total += count
        highest = max(highest, total)
        totals.append(highest)
    if not totals or highest <= 0:
        return None
    rank = quantile * highest
    place = next(number for number, reached in enumerate(totals) if reached >= rank and reached > 0)
    below = totals[place - 1] if place else 0.0
    upper = bounds[place]
    lower = bounds[place - 1] if place else min(0.0, upper)
    if math.isinf(upper):
        return lower if place else None
    inside = totals[place] - below
    return upper if inside <= 0 else lower + (upper - lower) * (rank - below) / inside


async def test_percentiles_of_histograms(column_store: ChdbColumnStore) -> None:
    """Empty buckets have their bounds, and the figures of two series are added up."""
    chance, environment, step = random.Random(1), uuid.uuid4().hex, 10_000
    begin = _HOUR.start // 10**9 // 10 * 10 + 10
    rows, expected = [], {}
    for number in range(60):
        bounds = sorted(chance.sample(range(-3, 12), chance.randrange(6)))
        two = [[chance.choice([0, 0, 1, 5]) for _ in (*bounds, 0)] for _ in range(2)]
        at = begin + 10 * number
        for host, counts in enumerate(two):
            rows.append(
                {
                    "EnvironmentId": environment,
                    "MetricName": "latency",
                    "Attributes": {"host": str(host)},
                    "TimeUnix": datetime.fromtimestamp(at + 1, UTC).isoformat(),
                    "ReceivedAt": NOW.isoformat(),
                    "Count": sum(counts),
                    "BucketCounts": counts,
                    "ExplicitBounds": bounds,
                    "AggregationTemporality": 1,
                    "log": environment,
                    "log_offset": number,
                }
            )
        expected[at * 1000] = [*bounds, math.inf], [sum(pair) for pair in zip(*two, strict=True)]
    await _insert(column_store, "otel_metrics_histogram", rows)
    (metric,) = await metric_names(column_store, environment, _HOUR, name="latency", limit=5)
    shares: dict[Aggregation, float] = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    for aggregation, share in shares.items():
        request = SeriesRequest(_HOUR, step, aggregation)
        (series,), _ = await metric_series(column_store, environment, metric, request)
        values = {at: _expected_quantile(*buckets, share) for at, buckets in expected.items()}
        assert dict(series.points) == pytest.approx(
            {at: value for at, value in values.items() if value is not None}
        )


async def test_percentiles_of_many_groups_are_read_a_few_groups_at_a_time(
    column_store: ChdbColumnStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = uuid.uuid4().hex
    rows = [
        {
            "EnvironmentId": environment,
            "MetricName": "latency",
            "Attributes": {"route": f"/{number}"},
            "TimeUnix": (NOW - timedelta(minutes=5)).isoformat(),
            "ReceivedAt": NOW.isoformat(),
            "Count": 10 - number,
            "BucketCounts": [10 - number, 0],
            "ExplicitBounds": [number + 1],
            "AggregationTemporality": 1,
            "log": environment,
            "log_offset": number,
        }
        for number in range(5)
    ]
    await _insert(column_store, "otel_metrics_histogram", rows)
    (metric,) = await metric_names(column_store, environment, _HOUR, name="latency", limit=5)
    request = SeriesRequest(_HOUR, 60_000, "p50", group_by="route")
    found = {}
    for maps in (10_000, 130):
        monkeypatch.setattr(metric_series_module, "_MAX_BUCKET_MAPS", maps)
        store: Any = _Asked(column_store)
        series, _ = await metric_series(store, environment, metric, request)
        found[len(store.asked)] = [(each.group, each.points[0][1]) for each in series]
    # The first query finds the groups; the others read all five, or two at a time.
    assert found == {count: [(f"/{number}", (number + 1) / 2) for number in range(5)] for count in (2, 4)}


async def test_long_values_are_groups_by_their_beginnings(column_store: ChdbColumnStore) -> None:
    environment = uuid.uuid4().hex
    point = {
        "EnvironmentId": environment,
        "MetricName": "size",
        "ReceivedAt": NOW.isoformat(),
        "log": environment,
    }
    values = {"a" * 5000: 3.0, "a" * 300: 1.0, "b": 2.0}
    rows = [
        {
            **point,
            "Attributes": {"k": value},
            "TimeUnix": (NOW - timedelta(minutes=5)).isoformat(),
            "Value": number,
        }
        for value, number in values.items()
    ]
    long = {"MetricDescription": "d" * 20_000, "MetricUnit": "u" * 20_000, "ServiceName": "s" * 20_000}
    rows = [row | long for row in rows]
    await _insert(column_store, "otel_metrics_gauge", rows)
    (metric,) = await metric_names(column_store, environment, _HOUR, name="size", limit=5)
    assert (len(metric.description), len(metric.unit), len(metric.services[-1])) == (10_000, 500, 500)
    for aggregation, points in (("max", [3.0, 2.0]), ("count", [2, 1]), ("p99", [3.0, 2.0])):
        request = SeriesRequest(_HOUR, 4_000_000, aggregation, group_by="k")
        series, all_groups = await metric_series(column_store, environment, metric, request)
        assert ([each.group for each in series], all_groups) == (["a" * 255, "b"], 2)
        assert [each.points[0][1] for each in series] == points


async def test_independent_reads_run_two_at_a_time_and_end_together() -> None:
    running: list[int] = []
    most = 0

    async def read(number: int) -> int:
        nonlocal most
        running.append(number)
        most = max(most, len(running))
        try:
            await asyncio.sleep(0)
            if number == 9:
                raise StorageUnavailable("no answer")
            await asyncio.sleep(60 if number == 8 else 0)
            return number
        finally:
            running.remove(number)

    assert await run_together(*map(read, range(5))) == [0, 1, 2, 3, 4]
    assert most == 2
    with pytest.raises(StorageUnavailable):
        await run_together(*map(read, (9, 8, 1, 2)))
    assert running == []
