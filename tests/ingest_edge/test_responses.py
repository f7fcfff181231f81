"""Parts of a response besides its status: request ID, receipt, remaining rate."""

import re

import pytest
from prometheus_client.exposition import generate_latest

from ingest_edge.metrics import new_registry
from pipeline_contracts.identifiers import open_receipt, receipt_name
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.records import decode_meta
from tests.support.scrape import read_scrape

BATCH = {"batch_id": "b-1", "events": [{"type": "log"}, {"type": "job"}]}


async def answers_with(edge, request_id):
    """Return one response of each kind: accepted, refused, unknown URL."""
    given = {"X-Request-Id": request_id}
    yield await edge.post(BATCH, given)
    yield await edge.post(b"{", given)
    yield await edge.post(BATCH, {**given, "Authorization": "Bearer x"})
    yield await edge.request("GET", "/nothing", headers=given)
    yield await edge.request("GET", "/health/ready", headers=given)


@pytest.mark.parametrize("given", ["a", "x" * 128, "01J-Z.7_a:b/c+d=e@f", "0af7651916cd43dd8448eb211c80319c"])
async def test_valid_request_id_is_returned(given, edge):
    async for answer in answers_with(edge, given):
        assert answer.headers["X-Request-Id"] == given


@pytest.mark.parametrize("given", ["", "x" * 129, "a b", "a,b", 'a"b', "<a>", "é", "a;b", "{}"])
async def test_any_other_request_id_is_replaced(given, edge):
    seen = set()
    async for answer in answers_with(edge, given):
        assert re.fullmatch(r"[0-9a-f]{24,}", answer.headers["X-Request-Id"])
        seen.add(answer.headers["X-Request-Id"])
    assert len(seen) == 5


async def test_the_receipt_names_the_batch_and_is_sealed_for_the_environment(edge):
    answer = await edge.post(BATCH)
    assert answer.status == 202
    assert answer.headers["Content-Type"] == "application/json"
    data = answer.document()["data"]
    receipt = data.pop("id")
    assert data == {
        "batch_id": "b-1",
        "status": "queued",
        "received": 2,
        "url": f"/api/v1/ingest/receipts/{receipt}",
    }
    name = open_receipt(receipt, edge.environment_id, edge.receipt_key)
    assert name == receipt_name(edge.environment_id, "b-1")
    assert open_receipt(receipt, "env_2", edge.receipt_key) is None
    (record,) = await edge.appended()
    assert record.key == name.encode()
    meta = decode_meta(record.meta)
    assert (meta.batch_id, meta.events, meta.project_id) == ("b-1", 2, "prj_1")


async def test_a_resend_has_the_same_receipt(edge):
    first, again = [(await edge.post(BATCH)).document() for _ in range(2)]
    other = (await edge.post({**BATCH, "batch_id": "b-2"})).document()
    assert first == again
    assert first["data"]["id"] != other["data"]["id"]
    assert edge.stored_records() == 3


async def test_accepted_batches_report_the_remaining_rate(start_edge):
    edge = await start_edge(rate=RateLimit(0.001, 10))
    for left in (8, 6, 4):
        answer = await edge.post(BATCH)
        assert answer.headers["RateLimit-Policy"] == '"ingest";q=10;w=10000'
        assert answer.headers["RateLimit"] == f'"ingest";r={left};t={(10 - left) * 1000}'


async def test_readiness_fails_with_the_log_and_at_shutdown(start_edge):
    edge = await start_edge(log_max_bytes=0)
    assert (await edge.request("GET", "/health/ready")).status == 200
    assert (await edge.post(BATCH)).status == 202
    answer = await edge.request("GET", "/health/ready")
    assert (answer.status, answer.document()["reasons"]) == (503, {"event_log": "the event log is full"})
    edge.readiness.shutting_down = True
    assert "process" in (await edge.request("GET", "/health/ready")).document()["reasons"]
    assert (await edge.request("GET", "/health/live")).status == 200


async def test_metrics_count_responses(edge):
    await edge.post(BATCH)
    await edge.post(b"{")
    await edge.request("GET", "/nothing")
    registry = new_registry()
    registry.register(edge.metrics)
    text = generate_latest(registry).decode()
    for line in (
        'pharos_edge_requests_total{route="/api/v1/ingest",status="202"} 1.0',
        'pharos_edge_requests_total{route="/api/v1/ingest",status="422"} 1.0',
        'pharos_edge_requests_total{route="other",status="404"} 1.0',
        "pharos_edge_events_accepted_total 2.0",
        "pharos_edge_request_seconds_count 3.0",
    ):
        assert line in text.splitlines()
    assert read_scrape(text)["pharos_edge_request_seconds"] > 3
    assert (await edge.request("GET", "/metrics")).status == 404
