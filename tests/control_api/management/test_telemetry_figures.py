"""Figures of telemetry over time (services, calls, log records, exceptions), and log records as they arrive."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from analytics_queries.alerts.site_visitors import events_of_days
from analytics_queries.overview.attention import SeenException, first_seen
from analytics_queries.telemetry import direct_rollups, rows_by_day
from analytics_queries.telemetry.direct_rollups import ROLLUPS, Rollup
from analytics_queries.telemetry.exception_groups import group_times
from analytics_queries.telemetry.logs import LogFilter
from analytics_queries.telemetry.metric_names import metric_names
from analytics_queries.telemetry.time_range import TimeRange, to_nanoseconds
from control_api.live_logs.log_streams import Reader
from control_api.live_logs.stream_records import FollowedRecords, RecordReader
from storage_backends.column_store.interface import ColumnStore, QueryResult
from tests.control_api.management import test_telemetry as rows
from tests.control_api.management.test_telemetry import EVENTS, RECORDS, SPANS, Telemetry

telemetry = rows.telemetry

# The rules of these reads do not depend on the database.
pytestmark = pytest.mark.parametrize("prepared", ["sqlite"], indirect=True)

BEGIN = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=30)
"""A whole hour."""


def at(minutes: float) -> str:
    return (BEGIN + timedelta(minutes=minutes)).isoformat()


def between(begin: float, end: float) -> str:
    return f"from={at(begin)}&to={at(end)}".replace("+00:00", "Z")


def request(minutes: float, **members: Any) -> dict[str, Any]:
    return {"type": "request", "timestamp": at(minutes), "service": "shop", "route": "/a", **members}


class ForcedProjections:
    """A column store that refuses to answer from rows."""

    def __init__(self, store: ColumnStore) -> None:
        self._store = store
        self.asked = 0

    async def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> QueryResult:
        self.asked += 1
        return await self._store.query(f"{sql}, force_optimize_projection = 1", parameters)


@pytest.fixture(params=["direct", "planned"])
def reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How rollups are read: `direct` as tables, or `planned` by the engine, which chooses a projection."""
    monkeypatch.setattr(direct_rollups, "_found", WeakKeyDictionary())
    if request.param == "planned":
        monkeypatch.setattr(direct_rollups, "_find", find_none)
    return str(request.param)


async def find_none(store: ColumnStore) -> frozenset[Rollup]:
    return frozenset()


async def test_steps_of_any_range_and_length_add_up(telemetry: Telemetry, reading: str) -> None:
    """The steps combine rollups by day, hour and minute with the rows at both ends, and equal the counts of the
    requests."""
    sent = [
        (minutes + 0.5 / (number + 1), number % 3 == 0, 10.0 * (number + 1))
        for number, minutes in enumerate(
            [-4500, -2000, -1, 0, 3, 59.9, 60, 61, 119, 120, 300, 301, 1439, 1440, 1500]
        )
    ]
    await telemetry.insert(
        EVENTS,
        [request(m, status_code=500 if failed else 200, duration_ms=ms) for m, failed, ms in sent],
    )
    ranges = [(0, 1800), (0.4, 301.2), (59, 61), (60, 120), (60.2, 60.6), (1438.7, 1500.3), (-60, 1439.99)]
    ranges += [(-5760, 1800), (-5000.4, 1439.5)]
    for begin, end in ranges:
        within = [each for each in sent if begin <= each[0] < end]
        for step in ("", "&step=1d", "&step=1h", "&step=4h", "&step=7m", "&step=90s", "&step=2m"):
            if step in ("&step=90s", "&step=2m", "&step=7m") and end - begin > (
                7000 if "7" in step else 1000
            ):
                continue
            series = await telemetry.read(f"services/shop/series?{between(begin, end)}{step}")
            found = (series["requests"], series["errors"])
            assert found == (len(within), sum(failed for _, failed, _ in within)), (begin, end)
            points = series["points"]
            assert sum(point["requests"] for point in points) == len(within), (begin, end, step)
            assert sum(point["errors"] for point in points) == found[1]
            for point in points:
                first = (datetime.fromisoformat(point["at"]) - BEGIN) / timedelta(minutes=1)
                inside = [each for each in within if first <= each[0] < first + series["step_seconds"] / 60]
                assert point["requests"] == len(inside), (begin, end, step, point)
            if within:
                longest = max(ms for _, _, ms in within)
                assert series["latency"]["p99_ms"] == pytest.approx(longest, rel=0.25)
    assert await direct_rollups.direct_rollups(telemetry.store) == (ROLLUPS if reading == "direct" else set())
    assert (await telemetry.read(f"services/other/series?{between(0, 60)}"))["points"] == []


async def test_whole_hours_and_minutes_are_read_from_rollups(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine reads the rows, without an error, if an expression differs from that of the rollup."""
    monkeypatch.setattr(direct_rollups, "_found", WeakKeyDictionary())
    monkeypatch.setattr(direct_rollups, "_find", find_none)
    await telemetry.insert(EVENTS, [request(minutes, type="log") for minutes in (1, 2)])
    await telemetry.insert(EVENTS, [request(minutes, duration_ms=1.0) for minutes in (1, 2)])
    await telemetry.insert(SPANS, [rows.span(1, SpanKind="Server", Timestamp=at(1))])
    await telemetry.insert(RECORDS, [rows.record(Body="hello", Timestamp=at(1))])
    forced = f"{direct_rollups._READ_ROLLUPS}, force_optimize_projection = 1"
    monkeypatch.setattr(direct_rollups, "_READ_ROLLUPS", forced)
    for path in (
        "services?",
        "services/shop/series?step=1m&",
        "routes?",
        "queries?",
        "logs/histogram?step=1m&",
    ):
        assert await telemetry.read(f"{path}{between(0, 60)}"), path
    monkeypatch.setattr(rows_by_day, "_SQL", f"{rows_by_day._SQL}{forced}")
    found = await rows_by_day.rows_by_day(telemetry.store, [telemetry.environment], BEGIN.date())
    assert sorted((each.kind, stored) for each, stored in found.items()) == [
        ("events", 4),
        ("log_records", 1),
        ("spans", 1),
    ]


async def test_projections_are_used_where_statements_name_them(telemetry: Telemetry) -> None:
    """Without the flag, the engine would read the rows of all parts, and return the same."""
    await telemetry.insert(EVENTS, [request(1, type="exception", title="broken"), request(1, type="metric")])
    store, environment, since = ForcedProjections(telemetry.store), telemetry.environment, BEGIN.date()
    within = TimeRange(to_nanoseconds(BEGIN), to_nanoseconds(BEGIN + timedelta(hours=1)))
    (broken,) = await telemetry.read(f"exceptions?{between(0, 60)}")
    group = int(broken["id"], 16)
    seen = SeenException(environment, group, 1, 1, 0, "", "", "")
    await events_of_days(store, since)
    await metric_names(store, environment, within, limit=1)
    await group_times(store, environment, [group])
    await first_seen(store, [seen])
    assert store.asked == 4


async def test_later_pages_have_the_range_of_the_first_one(telemetry: Telemetry) -> None:
    """This holds even if a client repeats only the cursor: a range with times is not extended to whole hours."""
    await telemetry.insert(EVENTS, [request(m, service=s) for s in ("a", "b") for m in (10, 30, 100)])
    path = f"{telemetry.path}/services?limit=1"
    first = await telemetry.api.call("GET", f"{path}&{between(20.5, 20.5 + 13 * 60)}")
    second = await telemetry.api.call("GET", f"{path}&cursor={first.json()['next_cursor']}")
    assert [each.data[0]["requests"] for each in (first, second)] == [2, 2]
    assert first.data[0]["rate"] == second.data[0]["rate"]


async def test_a_series_has_all_steps_of_the_whole_range(telemetry: Telemetry) -> None:
    now = datetime.now(UTC)
    times = [now - timedelta(seconds=40 * number + 1) for number in range(1260)]
    await telemetry.insert(EVENTS, [{**request(0), "timestamp": time.isoformat()} for time in times])
    series = await telemetry.read("services/shop/series?since=12h&step=44s")
    assert sum(point["requests"] for point in series["points"]) == series["requests"] > 1000


async def test_the_list_has_a_trend_that_adds_up(telemetry: Telemetry) -> None:
    await telemetry.insert(EVENTS, [request(minutes) for minutes in (1, 2, 100, 1000)])
    await telemetry.insert(EVENTS, [request(5, service="", status_code=503)])
    unnamed, shop = await telemetry.read(f"services?{between(0, 1800)}&steps=30")
    assert [point["requests"] for point in shop["trend"]] == [2, 1, 1]
    assert [(point["requests"], point["errors"]) for point in unnamed["trend"]] == [(1, 1)]
    series = await telemetry.read(f"services/-/series?{between(0, 1800)}")
    assert (series["service"], series["requests"], series["latency"]["p50_ms"]) == (None, 1, None)
    assert [each["trend"] for each in await telemetry.read(f"services?{between(0, 1800)}")] == [[], []]


async def test_calls_are_counted_by_route_and_statement(telemetry: Telemetry, reading: str) -> None:
    statement = {"db.system": "postgresql", "db.query.text": "SELECT 1"}
    await telemetry.insert(
        EVENTS,
        [
            *(request(minutes, duration_ms=100.0) for minutes in (1, 61, 62, 119.5)),
            request(70, route="/b", duration_ms=1000.0, status_code=500),
            request(80, type="query", title="SELECT * FROM t", duration_ms=5.0),
            request(81, type="job", name="Mail", route="", duration_ms=7.0),
            request(82, type="log", title="no call"),
        ],
    )
    span = {"TraceId": "a" * 32, "ServiceName": "api", "Duration": 3_000_000, "StatusCode": "Unset"}
    kinds = [
        ("Server", {}, "GET /c"),
        ("Client", statement, "x"),
        ("Client", {"db.system.name": "redis"}, "GET"),
    ]
    kinds += [("Client", {}, "GET /elsewhere"), ("Internal", statement, "inside")]
    await telemetry.insert(
        SPANS,
        [
            {
                **span,
                "SpanId": f"{n:016x}",
                "SpanKind": k,
                "SpanAttributes": a,
                "SpanName": name,
                "Timestamp": at(90),
            }
            for n, (k, a, name) in enumerate(kinds)
        ],
    )

    async def calls(path: str, begin: float = 0.5) -> list[tuple[Any, ...]]:
        found = await telemetry.read(f"{path}{between(begin, 119.75)}")
        return [(each["service"], each["kind"], each["name"], each["calls"]) for each in found["calls"]]

    routes = [("shop", "request", "/b", 1), ("shop", "request", "/a", 4)]
    routes += [("shop", "job", "Mail", 1), ("api", "request", "GET /c", 1)]
    # The counts come from hours and rows, then from days, hours and rows.
    assert await calls("routes?") == await calls("routes?", -4000) == routes
    # Only rows.
    assert sorted(await calls("routes?", 61)) == sorted(
        [*routes[:1], ("shop", "request", "/a", 3), *routes[2:]]
    )
    assert await calls("routes?sort=calls&limit=1&") == routes[1:2]
    assert (await calls("routes?sort=errors&"))[0] == routes[0]
    assert await calls("routes?service=api&") == routes[3:]
    assert sorted(await calls("queries?"))[:2] == [
        ("api", "query", "GET", 1),
        ("api", "query", "SELECT 1", 1),
    ]
    assert len(await calls("queries?")) == 3
    for begin in (0.5, 61):
        found = (await telemetry.read(f"routes?{between(begin, 119.75)}"))["calls"]
        p95 = {each["name"]: each["latency"]["p95_ms"] for each in found}
        assert p95 == {
            "/a": pytest.approx(100, rel=0.02),
            "/b": pytest.approx(1000, rel=0.02),
            "Mail": pytest.approx(7, rel=0.02),
            "GET /c": pytest.approx(3, rel=0.02),
        }
    cut = await telemetry.read(f"routes?limit=1&{between(0, 120)}")
    assert cut["other_calls"] == 3
    assert cut["calls"][0]["latency"]["p95_ms"] == pytest.approx(1000, rel=0.02)


async def test_log_records_are_counted_by_severity(telemetry: Telemetry, reading: str) -> None:
    record = {"ServiceName": "api", "SeverityText": "INFO", "SeverityNumber": 9, "Body": "hello world"}
    await telemetry.insert(
        RECORDS,
        [
            {**record, "Timestamp": at(m), "SeverityNumber": n}
            for m, n in ((0.5, 9), (1, 17), (61, 13), (62, 21))
        ],
    )
    await telemetry.insert(
        EVENTS, [request(61.5, type="log", severity="error", title="hello there", service="shop")]
    )
    for filters, expected in {
        "": [(1, 0, 1, 0), (0, 1, 1, 1)],
        "&search=hello": [(1, 0, 1, 0), (0, 1, 1, 1)],
        "&search=there": [(0, 0, 1, 0)],
        "&severity=error": [(0, 0, 1, 0), (0, 0, 1, 1)],
        "&service=shop": [(0, 0, 1, 0)],
        "&search=nothing": [],
    }.items():
        found = await telemetry.read(f"logs/histogram?{between(0.25, 70.5)}&step=1h{filters}")
        points = [(p["info"], p["warning"], p["error"], p["fatal"]) for p in found["points"]]
        assert points == expected, filters
        assert found["records"] == sum(p["records"] for p in found["points"]) == sum(map(sum, expected))


async def test_the_context_of_a_record_has_both_sides(telemetry: Telemetry) -> None:
    record = {"ServiceName": "api", "SeverityText": "INFO", "SeverityNumber": 9}
    await telemetry.insert(
        RECORDS,
        [
            *({**record, "Timestamp": at(m), "Body": str(m)} for m in range(0, 300, 30)),
            {**record, "Timestamp": at(121), "Body": "elsewhere", "ServiceName": "other"},
        ],
    )
    middle = at(120).replace("+00:00", "Z")
    found = await telemetry.read(f"logs/context?at={middle}&limit=3&service=api")
    assert [each["text"] for each in found["before"]] == ["120", "90", "60"]
    assert [each["text"] for each in found["after"]] == ["150", "180", "210"]
    found = await telemetry.read(f"logs/context?at={middle}&limit=1")
    assert [each["text"] for each in found["after"]] == ["elsewhere"]


async def test_exceptions_of_a_group_are_counted_over_time(telemetry: Telemetry) -> None:
    await telemetry.insert(
        EVENTS,
        [request(m, type="exception", title="broken") for m in (1, 2, 70)]
        + [request(3, type="exception", title="other")],
    )
    groups = await telemetry.read(f"exceptions?{between(0, 1800)}&steps=30")
    assert [[point["count"] for point in group["trend"]] for group in groups] == [[2, 1], [1]]
    series = await telemetry.read(f"exceptions/{groups[0]['id']}/series?{between(1.5, 1800)}&step=1h")
    assert [point["count"] for point in series["points"]] == [1, 1]
    assert datetime.fromisoformat(series["points"][0]["at"]) == BEGIN


async def test_figures_are_bound_to_their_environment(telemetry: Telemetry) -> None:
    now = datetime.now(UTC) - timedelta(minutes=5)
    group = await rows.send_everything(telemetry)
    other = telemetry.api.platform.acme.environment("shop/staging").public_id
    moment = now.isoformat().replace("+00:00", "Z")
    empty: dict[str, Any] = {
        "services/shop/series": ("points", []),
        "routes": ("calls", []),
        "queries": ("calls", []),
        "logs/histogram": ("points", []),
        f"logs/context?at={moment}": ("before", []),
    }
    for path, (member, nothing) in empty.items():
        found = await telemetry.api.read(f"/v1/environments/{other}/{path}")
        assert found[member] == nothing, path
        if path != "queries":
            own = await telemetry.read(path)
            assert own[member] or own.get("after"), path
    await telemetry.api.expect(
        (404, "not-found"), "GET", f"/v1/environments/{other}/exceptions/{group}/series"
    )


async def test_each_new_record_is_streamed_once(telemetry: Telemetry) -> None:
    followed = FollowedRecords(telemetry.environment, Reader(1, 1), LogFilter(least_severity=9))
    asked: list[tuple[str, int]] = []

    async def query(sql: str, parameters: Any) -> QueryResult:
        result = await telemetry.store.query(sql, parameters)
        asked.append((sql, len(result.rows)))
        return result

    store: Any = SimpleNamespace(query=query)
    reader = RecordReader(telemetry.api.platform.app.state.report_queue, store, followed)
    now = datetime.now(UTC)

    def record(body: str, ago: float, severity: int = 9) -> dict[str, Any]:
        moment = (now - timedelta(seconds=ago)).isoformat()
        return {"ServiceName": "api", "SeverityNumber": severity, "Body": body, "Timestamp": moment}

    async def read() -> list[str]:
        return [row["text"] for row in await reader.read(now)]

    await telemetry.insert(RECORDS, [record("before", 10)])
    assert await read() == []
    await telemetry.insert(RECORDS, [record("late", 20), record("new", 1), record("quiet", 1, 5)])
    assert await read() == ["late", "new"]
    assert await read() == []
    # At the same position in the log as a record that was sent.
    await telemetry.insert(RECORDS, [record("quiet", 1, 5), record("newer", 1)])
    assert await read() == ["newer"]
    asked.clear()
    for _ in range(3):
        assert await read() == []
    # Without new records only the positions are read, not the records.
    assert [rows for _, rows in asked] == [1, 1, 1] and not any("Body AS" in sql for sql, _ in asked)
