"""The generated traffic of `pharos up --demo`."""

import random
from collections import Counter, defaultdict
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from demo.traffic.catalogue import ROUTES, SERVER, SERVICES
from demo.traffic.faults import ReleaseTimes, pick_fault
from demo.traffic.jobs import Jobs
from demo.traffic.metrics import Metrics
from demo.traffic.rhythm import SLICE_SECONDS, Troubles, expected_rate
from demo.traffic.spans import Records, Traffic
from ingest_edge.decoders.telemetry import decode_batch
from ingest_edge.limits import Limits
from pipeline_contracts.settings import Settings

BEGAN = int(datetime(2026, 1, 28, 12, tzinfo=UTC).timestamp())
HOUR = 3600
TROUBLES = Troubles(BEGAN)
RELEASES = ReleaseTimes(BEGAN - 30 * HOUR, BEGAN - 27 * HOUR)
TRAFFIC = Traffic(1, TROUBLES, RELEASES)


def records_between(begin_s: int, end_s: int, traffic: Traffic = TRAFFIC) -> Records:
    records = Records()
    for at_s in range(begin_s, end_s, SLICE_SECONDS):
        traffic.add_slice(records, at_s)
    return records


@pytest.fixture(scope="module")
def records() -> Records:
    """The hour before the first start, of which the last 20 minutes have a slow database."""
    return records_between(BEGAN - HOUR, BEGAN)


def exceptions_of(records: Records) -> Counter[str]:
    found: Counter[str] = Counter()
    for span in (span for spans in records.spans.values() for span in spans):
        for event in span.get("events", ()):
            (kind,) = (a["value"]["stringValue"] for a in event["attributes"] if a["key"] == "exception.type")
            found[kind] += 1
    return found


def test_the_same_time_has_the_same_traffic(records: Records) -> None:
    assert records_between(BEGAN - HOUR, BEGAN).spans == records.spans
    assert records_between(BEGAN - HOUR, BEGAN, Traffic(2, TROUBLES, RELEASES)).spans != records.spans


def test_spans_of_a_trace_are_a_tree_within_their_parents(records: Records) -> None:
    traces: dict[str, dict[str, Any]] = defaultdict(dict)
    for span in (span for spans in records.spans.values() for span in spans):
        assert span["spanId"] not in traces[span["traceId"]]
        traces[span["traceId"]][span["spanId"]] = span
    assert set(records.spans) == set(SERVICES)
    for spans in traces.values():
        roots = [span for span in spans.values() if "parentSpanId" not in span]
        assert len(roots) == 1
        for span in spans.values():
            parent = spans[span.get("parentSpanId", roots[0]["spanId"])]
            assert int(parent["startTimeUnixNano"]) <= int(span["startTimeUnixNano"])
            assert int(parent["endTimeUnixNano"]) >= int(span["endTimeUnixNano"])


def test_each_served_request_has_a_log_line_in_its_trace(records: Records) -> None:
    served = {s["spanId"] for spans in records.spans.values() for s in spans if s["kind"] == SERVER}
    logged = [record["spanId"] for logs in records.logs.values() for record in logs]
    assert sorted(served) == sorted(logged)


def test_troubles_and_releases_raise_their_exceptions(records: Records) -> None:
    assert exceptions_of(records)["OperationalError"] >= 20
    before = exceptions_of(records_between(BEGAN - 3 * HOUR, BEGAN - 2 * HOUR))
    assert before["OperationalError"] <= 2
    faulty, fixed = RELEASES
    rng = random.Random(1)
    kinds = {
        at_s: {
            str(getattr(pick_fault(rng, "/checkout", at_s, TROUBLES, RELEASES), "kind", ""))
            for _ in range(400)
        }
        for at_s in (faulty - 1, faulty, fixed)
    }
    assert ["KeyError" in kinds[at_s] for at_s in (faulty - 1, faulty, fixed)] == [False, True, False]
    assert all(route.typical_ms > 0 and route.calls for route in ROUTES)


def test_troubles_begin_with_the_demo_and_return() -> None:
    period = 8 * HOUR
    slow = [TROUBLES.is_database_slow(BEGAN + at) for at in (-21 * 60, -19 * 60, 24 * 60, 26 * 60, period)]
    assert slow == [False, True, True, False, True]
    assert TROUBLES.seconds_of_stuck_images(BEGAN) == 40 * 60
    assert TROUBLES.seconds_of_stuck_images(BEGAN - HOUR) is None


def test_afternoon_is_busier_than_night() -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert expected_rate(noon.replace(hour=15).timestamp()) > 3 * expected_rate(
        noon.replace(hour=3).timestamp()
    )


def test_the_edge_accepts_the_events_of_jobs() -> None:
    jobs = Jobs(1, TROUBLES)
    events = [event for at_s in range(BEGAN - HOUR, BEGAN, SLICE_SECONDS) for event in jobs.list_slice(at_s)]
    batch, _ = decode_batch(
        orjson.dumps({"batch_id": "b", "events": events}), Limits.from_settings(Settings())
    )
    assert len(batch.events) == len(events) > 50
    assert {event["type"] for event in events} >= {"job", "query", "log", "metric"}
    assert len({event["id"] for event in events}) == len(events)


def test_count_of_a_histogram_is_the_sum_of_its_buckets() -> None:
    measured = Metrics(1, TROUBLES).measure(BEGAN, 60)
    for metrics in measured.values():
        for metric in metrics:
            for point in metric.get("histogram", {}).get("dataPoints", ()):
                assert int(point["count"]) == sum(map(int, point["bucketCounts"]))
                assert len(point["bucketCounts"]) == len(point["explicitBounds"]) + 1
