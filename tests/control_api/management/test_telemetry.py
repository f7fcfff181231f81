"""Reads of telemetry over the API: their counts, time ranges, pages, and access limits."""

import asyncio
import json
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from control_domain.tables.projects import Environment
from control_domain.tables.recorded_deployments import RecordedDeployment
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from tests.control_api.management.conftest import Api

NOW = datetime.now(UTC)
EVENTS, SPANS, RECORDS, GAUGES, SUMS = (
    f"pharos.{name}"
    for name in ("telemetry_events", "otel_traces", "otel_logs", "otel_metrics_gauge", "otel_metrics_sum")
)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture(autouse=True)
def _in_this_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    # Ranges end at the present time, and the module may have been imported long before its tests run.
    monkeypatch.setattr(f"{__name__}.NOW", datetime.now(UTC))


# The rules of these reads do not depend on the database.
pytestmark = pytest.mark.parametrize("prepared", ["sqlite"], indirect=True)


def ago(**since: float) -> str:
    return (NOW - timedelta(**since)).isoformat()


@dataclass(slots=True)
class Telemetry:
    """An environment of only this test, and the telemetry that it has sent."""

    api: Api
    store: ChdbColumnStore
    environment: str

    @property
    def path(self) -> str:
        return f"/v1/environments/{self.environment}"

    async def read(self, path: str) -> Any:
        return await self.api.read(f"{self.path}/{path}")

    async def read_all(self, path: str, limit: int = 2) -> list[Any]:
        return await self.api.read_all(f"{self.path}/{path}", limit)

    async def insert(self, table: str, rows: Iterable[dict[str, Any]]) -> None:
        is_event = table == EVENTS
        own = {
            "environment_id" if is_event else "EnvironmentId": self.environment,
            "received_at" if is_event else "ReceivedAt": NOW.isoformat(),
            "log": "of this test",
        }
        lines = [json.dumps({**own, "log_offset": number, **row}) for number, row in enumerate(rows)]
        text = "".join(line + "\n" for line in lines).encode()
        await self.store.insert(table, text, len(lines), uuid.uuid4().hex)

    async def deploy(self, version: str, at: datetime) -> None:
        async with self.api.platform.sessions() as session, session.begin():
            session.add(
                RecordedDeployment(
                    environment_id=self.api.platform.acme.environment("shop/production").id,
                    deployment_id=uuid.uuid4().hex,
                    version=version,
                    deployed_at=at,
                    recorded_at=at,
                )
            )


@pytest.fixture
async def telemetry(api: Api, column_store: ChdbColumnStore) -> Telemetry:
    """Return the environment `shop/production` with a new ID, because all tests share the column store."""
    public_id = f"env_{uuid.uuid4().hex[:26]}"
    number = api.platform.acme.environment("shop/production").id
    async with api.platform.sessions() as session, session.begin():
        await session.execute(update(Environment).where(Environment.id == number).values(public_id=public_id))
    return Telemetry(api, column_store, public_id)


def event(kind: str = "request", **members: Any) -> dict[str, Any]:
    return {"type": kind, "timestamp": ago(minutes=5), "service": "shop", **members}


def span(number: int, parent: int | None = None, **members: Any) -> dict[str, Any]:
    return {
        "Timestamp": (NOW - timedelta(minutes=5) + timedelta(milliseconds=number)).isoformat(),
        "TraceId": TRACE,
        "SpanId": f"{number:016x}",
        "ParentSpanId": "" if parent is None else f"{parent:016x}",
        "SpanName": f"span {number}",
        "SpanKind": "Internal",
        "ServiceName": "api",
        "Duration": 1_000_000,
        "StatusCode": "Unset",
        **members,
    }


def record(**members: Any) -> dict[str, Any]:
    row = {"Timestamp": ago(minutes=5), "SeverityText": "INFO", "SeverityNumber": 9, "ServiceName": "api"}
    return {**row, **members}


def point(value: float, at: str, **members: Any) -> dict[str, Any]:
    row = {"MetricName": "queue.size", "ServiceName": "api", "TimeUnix": at, "Value": value}
    return {**row, **members}


async def send_everything(telemetry: Telemetry) -> str:
    """Send telemetry that each read shows; return the ID of the group of exceptions."""
    await telemetry.insert(
        EVENTS, [event(duration_ms=12.5, status_code=200), event("exception", title="broken")]
    )
    await telemetry.insert(SPANS, [span(1)])
    await telemetry.insert(RECORDS, [record(Body="hello")])
    await telemetry.insert(GAUGES, [point(3, ago(minutes=5))])
    (group,) = await telemetry.read("exceptions")
    return str(group["id"])


READS = (
    "events",
    "logs",
    "services",
    "traces",
    f"traces/{TRACE}",
    "exceptions",
    "exceptions/{group}",
    "exceptions/{group}/events",
    "metrics",
    "metrics/queue.size/series",
)
_OF_ONE = (f"traces/{TRACE}", "exceptions/{group}", "exceptions/{group}/events", "metrics/queue.size/series")


async def test_every_read_is_bound_to_its_environment(telemetry: Telemetry) -> None:
    group = await send_everything(telemetry)
    other = telemetry.api.platform.acme.environment("shop/staging").public_id
    for read in READS:
        path = read.format(group=group)
        assert await telemetry.read(path), path
        response = await telemetry.api.call("GET", f"/v1/environments/{other}/{path}")
        if read in _OF_ONE:
            assert response.problem == (404, "not-found"), path
        else:
            assert response.data == [], path
    change = {"status": "ignored"}
    await telemetry.api.expect(
        (404, "not-found"), "PATCH", f"/v1/environments/{other}/exceptions/{group}", change
    )


RANGES = (
    "since=1s",
    "since=90d",
    "from=1970-01-02T00:00:00Z&to=1970-01-03T00:00:00Z",
    "from=2026-11-20T00:00:00.000001Z&to=2026-11-20T00:00:00.000002Z",
    "from=2026-11-20T00:00:00%2B14:00&to=2026-11-20T00:00:00-12:00",
)
NO_RANGES = {
    "since=0s": "since",
    "since=1y": "since",
    "since=91d": "since",
    "since=999999w": "since",
    "since=1h&from=2026-11-20T00:00:00Z": "since",
    "from=2026-11-20T00:00:00": "from",
    "from=1900-01-01T00:00:00Z&to=1900-01-02T00:00:00Z": "from",
    "from=9999-12-31T23:59:59Z": "from",
    "from=2026-11-20T00:00:00Z&to=2026-11-20T00:00:00Z": "from",
    "from=2026-01-01T00:00:00Z&to=2026-11-20T00:00:00Z": "from",
    "to=2999-01-01T00:00:00Z": "to",
    "to=1970-01-01T12:00:00Z": "to",
    "until=2026-01-01T00:00:00Z": "until",
}


async def test_time_ranges(telemetry: Telemetry) -> None:
    """Every allowed range is answered. Other ranges are refused with the name of the parameter."""
    group = await send_everything(telemetry)
    for read in READS:
        if read.startswith("traces/"):
            continue
        path = f"{telemetry.path}/{read.format(group=group)}"
        for query in RANGES:
            response = await telemetry.api.call("GET", f"{path}?{query}")
            # A metric without points in the range is not found.
            allowed = {200, 404} if "series" in read else {200}
            assert response.status in allowed, (path, query, response.body)
        for query, field in NO_RANGES.items():
            response = await telemetry.api.call("GET", f"{path}?{query}")
            assert response.status == 422, (path, query, response.body)
            assert response.fields == [field], (path, query)


async def test_unavailable_or_slow_column_store_is_503(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = await send_everything(telemetry)
    store = telemetry.api.platform.app.state.column_store

    async def query(*arguments: Any) -> Any:
        raise StorageUnavailable("Code: 159. Timeout exceeded")

    monkeypatch.setattr(store, "query", query)
    platform = telemetry.api.platform
    headers = {"Authorization": f"Bearer {platform.acme.token()}"}
    for read in READS:
        url = f"{platform.url}/api{telemetry.path}/{read.format(group=group)}"
        async with platform.http.get(url, headers=headers) as response:
            assert response.status == 503 and "Retry-After" in response.headers, read
            assert "159" not in await response.text()


async def test_pages_do_not_move_while_newer_rows_arrive(telemetry: Telemetry) -> None:
    """All pages have the range of the first page, and groups of exceptions are counted as of that time."""
    numbers = range(5)

    async def send(first: int, **since: float) -> None:
        times = [ago(**since, seconds=number) for number in numbers]
        rows = [(first + number, at) for number, at in zip(numbers, times, strict=True)]
        await telemetry.insert(EVENTS, [event(timestamp=at, id=str(n)) for n, at in rows])
        await telemetry.insert(
            EVENTS, [event("exception", title="abcdefghij"[n], timestamp=at) for n, at in rows]
        )
        # All groups are seen again.
        await telemetry.insert(
            EVENTS, [event("exception", title="abcde"[n % 5], timestamp=at) for n, at in rows]
        )
        await telemetry.insert(RECORDS, [record(Body=str(n), Timestamp=at) for n, at in rows])
        await telemetry.insert(SPANS, [span(n, Timestamp=at, TraceId=f"{n:032x}") for n, at in rows])

    await send(0, minutes=10)
    paths = ("events?type=request", "logs", "traces", "exceptions")
    whole = {path: await telemetry.read(path) for path in paths}
    cursors = {}
    for path in paths:
        mark = "&" if "?" in path else "?"
        first = (await telemetry.api.call("GET", f"{telemetry.path}/{path}{mark}limit=2")).json()
        assert first["data"] == whole[path][:2] and len(whole[path]) >= len(numbers)
        cursors[path] = f"{path}{mark}limit=100&cursor={first['next_cursor']}"
    # `stored_at` of the column store has milliseconds.
    await asyncio.sleep(0.002)
    await send(5, minutes=1)
    for path, following in cursors.items():
        rest = await telemetry.read(following)
        if path == "exceptions":
            # The time of the last exception of a group does not depend on the range.
            assert [(group["id"], group["count"]) for group in rest] == [
                (group["id"], group["count"]) for group in whole[path][2:]
            ]
        else:
            assert rest == whole[path][2:], path


async def test_every_list_has_the_same_rows_in_small_pages(telemetry: Telemetry) -> None:
    """This includes rows that one request sent and whose times are far apart."""
    times = [ago(minutes=m) for m in (5, 5, 5, 16, 300)] + [ago(days=20)]
    rows = list(enumerate(times))
    begin, end = (NOW - timedelta(days=40)), NOW
    query = f"from={begin.strftime('%Y-%m-%dT%H:%M:%SZ')}&to={end.strftime('%Y-%m-%dT%H:%M:%SZ')}"
    await telemetry.insert(
        EVENTS, [event(timestamp=t, id=str(n), log_offset=1, position=n, service=f"s{n}") for n, t in rows]
    )
    await telemetry.insert(
        EVENTS, [event("exception", title=f"in {'abcdefghij'[n]}", timestamp=t, position=n) for n, t in rows]
    )
    await telemetry.insert(RECORDS, [record(Body=f"number {n}", Timestamp=t, log_offset=1) for n, t in rows])
    await telemetry.insert(SPANS, [span(n, Timestamp=t, TraceId=f"{n:032x}") for n, t in rows])
    await telemetry.insert(GAUGES, [point(1, t, MetricName=f"m{n}") for n, t in rows])
    for path in ("events?type=request", "logs", "traces", "exceptions", "metrics", "services"):
        address = f"{path}{'&' if '?' in path else '?'}{query}"
        whole = await telemetry.read(f"{address}&limit=100")
        assert len(whole) >= len(rows), path
        assert len({json.dumps(each) for each in whole}) == len(whole), path
        assert await telemetry.read_all(address, 2) == whole, path


SEARCHES = {
    "search=declined": ["Payment DECLINED", "declined-by provider", "an event was declined"],
    "search=payment+declined": ["Payment DECLINED"],
    "search=declined%2C+payment!": ["Payment DECLINED"],
    # Only whole words match.
    "search=decline": [],
    "search=B%C3%BCcher": ["B\u00fccher ausverkauft"],
    "severity=warning": ["Payment DECLINED", "an event was declined"],
    "severity=error&search=declined": ["an event was declined"],
    "service=web": ["declined-by provider"],
    f"trace={TRACE.upper()}": ["B\u00fccher ausverkauft"],
}


async def test_search_in_logs(telemetry: Telemetry) -> None:
    """OTLP records and telemetry events of the type `log` are searched alike."""
    await telemetry.insert(
        RECORDS,
        [
            record(Body="Payment DECLINED", SeverityNumber=13, Timestamp=ago(minutes=1)),
            record(Body="declined-by provider", ServiceName="web", Timestamp=ago(minutes=2)),
            record(Body="B\u00fccher ausverkauft", TraceId=TRACE, Timestamp=ago(hours=30)),
        ],
    )
    await telemetry.insert(
        EVENTS, [event("log", title="an event was declined", severity="error", timestamp=ago(hours=3))]
    )
    for number, title in enumerate(("    indented", "Error: x\n    at f (a.js:1:2)")):
        stored = event("log", title=title, service=f"stacks {number}", timestamp=ago(minutes=5))
        await telemetry.insert(EVENTS, [stored])
        (each,) = await telemetry.read(f"logs?service=stacks+{number}")
        assert each["text"] == title
    for query, texts in SEARCHES.items():
        found = await telemetry.read(f"logs?since=2d&{query}")
        assert [each["text"] for each in found] == texts, query
    for query in ("search=%2C", "search=" + "+".join(f"w{number}" for number in range(21))):
        response = await telemetry.api.call("GET", f"{telemetry.path}/logs?{query}")
        assert (response.status, response.fields) == (422, ["search"])


async def test_a_trace_as_a_tree(telemetry: Telemetry) -> None:
    """A span without its parent is a root, a cycle does not hang, and a span that was sent twice appears once."""
    spans = [span(1), span(2, 1), span(3, 2), span(4, 1), span(5, 99), span(6, 7), span(7, 6), span(4, 1)]
    await telemetry.insert(SPANS, spans)
    trace = await telemetry.read(f"traces/{TRACE.upper()}")
    assert [(each["name"], each["depth"]) for each in trace["tree"]] == [
        ("span 1", 0),
        ("span 2", 1),
        ("span 3", 2),
        ("span 4", 1),
        ("span 5", 0),
        ("span 6", 0),
        ("span 7", 1),
    ]
    assert (trace["spans"], trace["truncated"], trace["name"]) == (7, False, "span 1")
    (summary,) = await telemetry.read("traces")
    assert {name: trace[name] for name in summary} == summary


async def test_a_deep_trace_is_cut_at_5000_spans(telemetry: Telemetry) -> None:
    await telemetry.insert(SPANS, [span(n, n - 1 if n > 1 else None) for n in range(1, 5003)])
    trace = await telemetry.read(f"traces/{TRACE}")
    assert (len(trace["tree"]), trace["tree"][-1]["depth"], trace["truncated"]) == (5000, 4999, True)


async def test_services_count_requests_of_all_sources(telemetry: Telemetry) -> None:
    """Whole hours are read from a projection, the partial hours at both ends from the rows."""
    requests = [
        event(timestamp=ago(hours=5, minutes=n), duration_ms=100.0, status_code=500 if n < 3 else 200)
        for n in range(0, 290, 10)
    ]
    await telemetry.insert(EVENTS, [*requests, event("job", duration_ms=None), event("query")])
    await telemetry.insert(
        SPANS, [span(1, SpanKind="Server", StatusCode="Error"), span(2, SpanKind="Consumer"), span(3)]
    )
    api, shop = await telemetry.read("services?since=2d")
    assert (api["service"], api["requests"], api["errors"]) == ("api", 2, 1)
    assert (shop["service"], shop["requests"], shop["errors"]) == ("shop", 30, 1)
    assert api["latency"]["p95_ms"] == pytest.approx(1.0, rel=0.1)
    assert shop["latency"]["p50_ms"] == pytest.approx(100, rel=0.1)
    begin, end = (NOW - timedelta(hours=each) for each in (8.5, 6.5))
    query = "&".join(
        f"{name}={at.strftime('%Y-%m-%dT%H:%M:%SZ')}" for name, at in (("from", begin), ("to", end))
    )
    (shop,) = await telemetry.read(f"services?{query}")
    expected = sum(begin <= datetime.fromisoformat(each["timestamp"]) < end for each in requests)
    assert (shop["requests"], shop["errors"]) == (expected, 0)


async def test_a_counter_is_shown_by_its_increase(telemetry: Telemetry) -> None:
    """A series that was reset counts from 0. The first step begins at the last point before the range."""
    values = [(35, 100.0), (25, 160.0), (15, 30.0), (5, 90.0)]
    sums = {"AggregationTemporality": 2, "IsMonotonic": True, "StartTimeUnix": ago(days=1)}
    await telemetry.insert(
        SUMS, [point(value, ago(minutes=at), MetricName="served", **sums) for at, value in values]
    )
    series = await telemetry.read("metrics/served/series?since=30m&aggregation=sum&step=1h")
    assert sum(each["value"] for each in series["series"][0]["points"]) == 60 + 30 + 60
    refused = await telemetry.api.call("GET", f"{telemetry.path}/metrics/served/series?aggregation=p95")
    assert (refused.status, refused.fields) == (422, ["aggregation"])


REGRESSIONS = {
    "again in the release that was live": (["1"], "1", "resolved"),
    "in an older release, after a newer one was deployed": (["1", "2"], "1", "resolved"),
    "in a newer release": (["1", "2"], "2", "open"),
    "in a newer release that the exception does not name": (["1", "2"], "", "open"),
    "after a rollback to the release": (["1", "2", "1"], "", "resolved"),
    "in a release that was never deployed": (["1"], "9", "resolved"),
}


@pytest.mark.parametrize("case", REGRESSIONS)
async def test_a_resolved_group_regresses_in_a_newer_release_alone(telemetry: Telemetry, case: str) -> None:
    versions, version, expected = REGRESSIONS[case]

    def exception(version: str, at: datetime, number: int) -> dict[str, Any]:
        attributes = json.dumps({"service.version": version} if version else {})
        return event(
            "exception", title="broken", timestamp=at.isoformat(), attributes=attributes, log_offset=number
        )

    async with telemetry.api.platform.sessions() as session, session.begin():
        # Deployments of another environment cause no regression.
        staging = telemetry.api.platform.acme.environment("shop/staging").id
        for minutes, deployed in ((-2, "3"), (20, "2")):
            at = NOW + timedelta(minutes=minutes)
            row = {"environment_id": staging, "deployment_id": uuid.uuid4().hex, "version": deployed}
            session.add(RecordedDeployment(**row, deployed_at=at, recorded_at=at))
    await telemetry.deploy(versions[0], NOW - timedelta(hours=2))
    await telemetry.insert(EVENTS, [exception("1", NOW - timedelta(hours=1), 0)])
    (group,) = await telemetry.read("exceptions")
    path = f"{telemetry.path}/exceptions/{group['id']}"
    assert (group["status"], group["first_deployment"]["version"]) == ("open", "1")
    resolved = await telemetry.api.call("PATCH", path, {"status": "resolved"})
    assert (resolved.data["status"], resolved.data["resolved_in"]["version"]) == ("resolved", "1")
    later = datetime.now(UTC)
    for number, deployed in enumerate(versions[1:], 1):
        await telemetry.deploy(deployed, later + timedelta(milliseconds=number))
    seen_at = later + timedelta(seconds=1)
    await telemetry.insert(EVENTS, [exception(version, seen_at, 1) | {"received_at": seen_at.isoformat()}])
    to = (seen_at + timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = await telemetry.read(f"exceptions/{group['id']}?to={to}")
    assert (found["status"], found["count"]) == (expected, 2)
    assert (found["regressed_at"] is not None) == (expected == "open")
    for status in ("open", "resolved"):
        listed = await telemetry.read(f"exceptions?status={status}&to={to}")
        assert len(listed) == (status == expected)
    if expected == "open":
        again = await telemetry.api.call("PATCH", path, {"status": "resolved"})
        assert (again.data["status"], again.data["regressed_at"]) == ("resolved", None)


async def test_long_texts_are_cut_in_every_read(telemetry: Telemetry) -> None:
    """A sender may repeat a character in a text, which costs nothing to send."""
    long = "x" * 50_000
    texts = ("id", "name", "title", "service", "trace_id", "span_id", "parent_span_id", "route", "url")
    texts = (*texts, "fingerprint", "details")
    await telemetry.insert(
        EVENTS, [event(kind, **dict.fromkeys(texts, long)) for kind in ("request", "exception")]
    )
    await telemetry.insert(EVENTS, [event("log", **dict.fromkeys(texts, long), severity="error")])
    attributes = {long: "", "exception.type": long, "user.id": long}
    await telemetry.insert(
        RECORDS,
        [record(SeverityText=long, ServiceName=long, Body=long, EventName=long, LogAttributes=attributes)],
    )
    raised = {"Events.Timestamp": [ago(minutes=5)], "Events.Name": [long], "Events.Attributes": [{long: ""}]}
    await telemetry.insert(
        SPANS, [span(1, SpanName=long, ServiceName=long, SpanAttributes={long: ""}, **raised)]
    )
    long_point = point(3, ago(minutes=5), MetricDescription=long, MetricUnit=long, Attributes={"k": long})
    await telemetry.insert(GAUGES, [long_point])
    groups = await telemetry.read("exceptions")
    for group in groups:
        for read in (*READS, "metrics/queue.size/series?group_by=k"):
            answer = await telemetry.read(read.format(group=group["id"]))
            longest = max(map(len, re.findall("x+", json.dumps(answer))), default=0)
            # Stacks have 20,000 characters.
            assert longest <= 10_000, read
            assert len(json.dumps(answer)) < 150_000, read
    event_documents = await telemetry.read("events?type=request")
    assert event_documents[0]["truncated"] == [
        *("id", "name", "service", "trace_id", "span_id", "parent_span_id", "route", "fingerprint"),
        *("title", "url", "details"),
    ]
    logged = {each["source"]: each for each in await telemetry.read("logs")}
    assert logged["otlp"]["truncated"] == ["severity", "service", "text", "attributes"]
    assert logged["event"]["truncated"] == ["service", "trace_id", "span_id", "text"]
    assert logged["event"]["severity_number"] == 17


async def test_rows_of_a_clock_that_is_ahead_are_listed(telemetry: Telemetry) -> None:
    """Lists that end now include a few minutes of the future; a rate covers only the time up to now."""
    at = ago(minutes=-5)
    await telemetry.insert(
        EVENTS,
        [event(timestamp=t) for t in (at, ago(minutes=5))]
        + [event("exception", title="broken", timestamp=at)],
    )
    await telemetry.insert(RECORDS, [record(Body="hello", Timestamp=at)])
    await telemetry.insert(SPANS, [span(1, Timestamp=at)])
    for path, count in (("events", 3), ("logs?since=5m", 1), ("traces", 1), ("exceptions?since=90d", 1)):
        assert len(await telemetry.read(path)) == count, path
    (group,) = await telemetry.read("exceptions")
    assert (await telemetry.read(f"exceptions/{group['id']}"))["count"] == 1
    assert len(await telemetry.read(f"exceptions/{group['id']}/events")) == 1
    (shop,) = await telemetry.read("services")
    assert shop["requests"] == 1 and 1 / 3660 <= shop["rate"] <= 1 / 3600


async def test_a_clock_that_is_ahead_makes_no_regression(telemetry: Telemetry) -> None:
    """An exception that was received before its group was resolved is no regression, even if its own time is later."""
    ahead = event("exception", title="broken", timestamp=ago(minutes=-50))
    await telemetry.insert(EVENTS, [ahead])
    (group,) = await telemetry.read(f"exceptions?from={ago(days=1).replace('+00:00', 'Z')}&to={_soon()}")
    path = f"{telemetry.path}/exceptions/{group['id']}"
    resolved = await telemetry.api.call("PATCH", path, {"status": "resolved"})
    assert resolved.data["status"] == "resolved"
    assert (await telemetry.read(f"exceptions/{group['id']}"))["status"] == "resolved"
    received = datetime.now(UTC) + timedelta(milliseconds=2)
    await telemetry.insert(EVENTS, [{**ahead, "received_at": received.isoformat(), "log_offset": 1}])
    found = await telemetry.read(f"exceptions/{group['id']}")
    assert found["status"] == "open"
    assert datetime.fromisoformat(found["regressed_at"]) <= received


def _soon() -> str:
    return ago(hours=-2).replace("+00:00", "Z")


async def test_status_and_assignee_of_a_group(telemetry: Telemetry) -> None:
    """The `ETag` covers both. A group that is open and unassigned has no row. Each change adds an audit entry."""
    group = await send_everything(telemetry)
    path = f"{telemetry.path}/exceptions/{group}"
    person = telemetry.api.platform.acme.people["deployer"].public_id
    etag = (await telemetry.api.call("GET", path)).headers["ETag"]
    changed = await telemetry.api.call(
        "PATCH", path, {"status": "ignored", "assignee": person}, headers={"If-Match": etag}
    )
    assert (changed.data["status"], changed.data["assignee"]["id"]) == ("ignored", person)
    await telemetry.api.expect(
        (412, "precondition-failed"), "PATCH", path, {"status": "open"}, headers={"If-Match": etag}
    )
    for query, count in (
        ("status=ignored", 1),
        ("status=open", 0),
        (f"assignee={person}", 1),
        ("assignee=none", 0),
        ("assignee=nobody", 0),
    ):
        assert len(await telemetry.read(f"exceptions?{query}")) == count, query
    assert (await telemetry.api.audit(1))[0] == ("exception.set", f"exception {group}")
    opened = await telemetry.api.call("PATCH", path, {"status": "open", "assignee": None})
    assert (opened.data["status"], opened.data["assignee"]) == ("open", None)
    stranger = telemetry.api.platform.other.people["owner"].public_id
    for body, fields in (({"assignee": stranger}, ["assignee"]), ({"status": "gone"}, ["status"])):
        response = await telemetry.api.expect((422, "validation-failed"), "PATCH", path, body)
        assert response.fields == fields
    await telemetry.api.expect(
        (404, "not-found"), "PATCH", f"{telemetry.path}/exceptions/{'0' * 16}", {"status": "open"}
    )
