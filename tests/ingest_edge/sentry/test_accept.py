"""Envelopes at the edge: places of the key, codings, refusals, CORS, and the durable records after a 200."""

import asyncio
import gzip
import json
import logging
import threading
import zlib
from typing import Any

import brotli
import msgspec
import pytest

from ingest_edge.sentry import accept
from ingest_edge.sentry.conversion_slots import ConversionSlots
from ingest_edge.sentry.envelope import Envelope, read_envelope
from pipeline_contracts import topics
from pipeline_contracts.credentials import CredentialKind, make_credential
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.otlp.records import decode_otlp_meta
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.records import decode_meta
from tests.ingest_edge.conftest import Answer, RunningEdge, StartEdge
from tests.ingest_edge.sentry.test_convert import ID, TRANSACTION, envelope

ENVELOPE = "/api/1/envelope/"
EVENT = ("event", {"event_id": ID, "message": "x"})
LOGS = ("log", {"items": [{"timestamp": 1700000000, "level": "info", "body": "hi"}] * 3})
CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "X-Sentry-Error, X-Sentry-Rate-Limits, Retry-After",
}


def auth(key: str) -> dict[str, str]:
    return {"X-Sentry-Auth": f"Sentry sentry_key={key}, sentry_version=7, sentry_client=sentry.python/2"}


async def send(edge: RunningEdge, *items: tuple[str, Any], path: str = ENVELOPE, **headers: str) -> Answer:
    return await edge.request("POST", path, data=envelope(*items), headers={**auth(edge.key), **headers})


async def test_all_records_of_an_envelope_are_in_the_log(edge: RunningEdge) -> None:
    header = {"event_id": ID}
    body = envelope(EVENT, ("transaction", TRANSACTION), LOGS, ("session", {}), header=header)
    answer = await edge.request("POST", ENVELOPE, data=body, headers=auth(edge.key))
    assert (answer.status, answer.document()) == (200, {"id": ID})
    [event] = await edge.appended(topics.TELEMETRY)
    [transaction] = await edge.appended(topics.TRACES)
    [logs] = await edge.appended(topics.LOGS)
    meta = decode_meta(event.meta)
    assert (meta.environment_id, meta.events, meta.batch_id) == ("env_1", 1, f"sentry:event:{ID}")
    assert decode_otlp_meta(transaction.meta).batch_id == f"sentry:transaction:{ID}"
    assert decode_otlp_meta(logs.meta).records == 3
    assert all(record.key.startswith(b"rcp_") for record in (event, transaction, logs))
    assert edge.metrics.events_accepted == 7
    assert edge.sentry.dropped.total == {("session", "not_kept"): 1, ("transaction", "invalid"): 3}


async def test_key_is_found_where_sdks_send_it(edge: RunningEdge) -> None:
    body = envelope(EVENT)
    dsn = f"https://{edge.key}@pharos.example/1"
    for path, headers, data in [
        (ENVELOPE, auth(edge.key), body),
        ("/api/42/envelope", auth(edge.key), body),
        (ENVELOPE, {"X-Sentry-Auth": f"sentry sentry_version=7,sentry_key={edge.key}"}, body),
        (ENVELOPE, {"Authorization": f"Sentry sentry_key={edge.key}"}, body),
        (f"{ENVELOPE}?sentry_version=7&sentry_key={edge.key}&sentry_client=x", {}, body),
        (ENVELOPE, {}, envelope(EVENT, header={"dsn": dsn})),
        (f"/api/1/store/?sentry_key={edge.key}", {}, json.dumps(EVENT[1]).encode()),
    ]:
        answer = await edge.request("POST", path, data=data, headers=headers)
        assert (answer.status, answer.document()) == (200, {"id": ID}), path
    records = await edge.appended()
    # All are the same event: the consumers store the first one.
    assert len(records) == 7 and len({record.key for record in records}) == 1


async def test_codings_that_sdks_use(edge: RunningEdge) -> None:
    body = envelope(EVENT)
    packed = {
        "gzip": gzip.compress(body),
        "deflate": zlib.compress(body),
        "br": brotli.compress(body),
        "BR ": brotli.compress(body),
    }
    for coding, data in packed.items():
        answer = await edge.request(
            "POST", ENVELOPE, data=data, headers={**auth(edge.key), "Content-Encoding": coding}
        )
        assert answer.status == 200, coding
    bomb = brotli.compress(bytes(30 * 2**20))
    for data, status in [
        (b"no brotli", 400),
        (packed["br"][:-3], 400),
        (packed["br"] + b"x", 400),
        (b"", 400),
        (bomb, 413),
    ]:
        answer = await edge.request(
            "POST", ENVELOPE, data=data, headers={**auth(edge.key), "Content-Encoding": "br"}
        )
        assert answer.status == status, data[:20]
    # Other addresses accept only the codings of the API reference.
    assert (await edge.post({}, {"Content-Encoding": "br"})).status == 415


async def test_refusals_are_readable_for_sdks_and_name_no_key(
    start_edge: StartEdge, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    edge = await start_edge(body_bytes=2**19)
    unknown, expired = make_credential(CredentialKind.INGEST_KEY), await edge.issue_key(expires_ms=1)
    monitor = await edge.issue_key(CredentialKind.MONITOR_KEY, monitor="heartbeat/7")
    good = auth(edge.key)
    for method, path, headers, data, status in [
        ("POST", ENVELOPE, {}, envelope(EVENT), 401),
        ("POST", ENVELOPE, {}, envelope(EVENT, header={"dsn": "https://host/1"}), 401),
        ("POST", ENVELOPE, {}, envelope(EVENT, header={"dsn": "https://[bad@host/1"}), 401),
        ("POST", ENVELOPE, {}, envelope(EVENT, header={"dsn": 7}), 401),
        ("POST", ENVELOPE, {}, b"no envelope", 400),
        ("POST", ENVELOPE, {}, envelope(("event", "x" * 2**19)), 413),
        ("POST", ENVELOPE, auth(unknown), envelope(EVENT), 401),
        ("POST", ENVELOPE, auth(expired), envelope(EVENT), 401),
        ("POST", ENVELOPE, auth(monitor), envelope(EVENT), 401),
        ("POST", f"{ENVELOPE}?sentry_key={unknown}", {}, envelope(EVENT), 401),
        ("POST", "/api/1/store/", {}, b"{}", 401),
        ("POST", ENVELOPE, good, b"no envelope", 400),
        ("POST", ENVELOPE, good, b'{}\n{"type":"event","length":99}\n{}', 400),
        ("POST", ENVELOPE, good, envelope(("event", "[]")), 400),
        ("POST", ENVELOPE, good, bytes(2**19 + 1), 413),
        ("POST", ENVELOPE, {**good, "Content-Encoding": "compress"}, envelope(EVENT), 415),
        ("GET", ENVELOPE, good, None, 405),
        ("PUT", "/api/1/store", good, b"{}", 405),
    ]:
        answer = await edge.request(method, path, data=data, headers=headers)
        document = answer.document()
        assert (answer.status, list(document)) == (status, ["detail"]), (path, document)
        assert answer.headers["X-Sentry-Error"] and answer.headers["X-Request-Id"]
        assert {name: answer.headers[name] for name in CORS} == CORS
        written = answer.body.decode() + str(answer.headers) + caplog.text
        assert not any(secret in written for secret in (edge.key, unknown, expired, monitor)), path
    for path in (
        "/api/x/envelope/",
        "/api/1/minidump/",
        "/api/1/envelope/x",
        "/api/" + "1" * 30 + "/envelope/",
    ):
        assert (await edge.request("POST", path, data=envelope(EVENT), headers=good)).status == 404, path
    assert await edge.appended() == []
    assert edge.budgets.bytes == 0


async def test_requests_of_browsers(edge: RunningEdge) -> None:
    """A page of another origin sends text/plain with the key in the query, which needs no preflight."""
    path = (
        f"{ENVELOPE}?sentry_version=7&sentry_key={edge.key}&sentry_client=sentry.javascript.browser%2F11.12.0"
    )
    headers = {"Origin": "https://shop.example", "Content-Type": "text/plain;charset=UTF-8"}
    answer = await edge.request("POST", path, data=envelope(EVENT), headers=headers)
    assert (answer.status, {name: answer.headers[name] for name in CORS}) == (200, CORS)
    asked = {
        **headers,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-sentry-auth",
    }
    preflight = await edge.request("OPTIONS", ENVELOPE, headers=asked)
    assert (preflight.status, preflight.body) == (204, b"")
    assert preflight.headers["Access-Control-Allow-Origin"] == "*"
    assert "POST" in preflight.headers["Access-Control-Allow-Methods"]
    assert "X-Sentry-Auth" in preflight.headers["Access-Control-Allow-Headers"]
    assert "Access-Control-Allow-Credentials" not in preflight.headers


async def test_rate_is_that_of_the_account(start_edge: StartEdge) -> None:
    """The bucket never fills again: an event takes one token, three log records take three, an empty envelope one."""
    edge = await start_edge(rate=RateLimit(0.5, 5), clock=lambda: 0.0)
    assert (await send(edge, EVENT)).status == 200
    assert (await send(edge, LOGS)).status == 200
    assert (await send(edge, ("session", {}))).status == 200
    answer = await send(edge, EVENT)
    assert answer.status == 429
    assert answer.headers["Retry-After"] == "2"
    assert answer.headers["X-Sentry-Rate-Limits"] == "2::organization:rate_limited"
    assert (await send(edge, ("log", {"items": LOGS[1]["items"] * 2}))).status == 413


async def test_refused_envelopes_take_tokens(start_edge: StartEdge) -> None:
    """The bucket never fills again. A refusal takes a token for each member that was read, and at least one."""
    edge = await start_edge(rate=RateLimit(0.5, 10), clock=lambda: 0.0)
    invalid = ("log", {"items": [0, 0, 0]})
    for number, (items, status) in enumerate(
        [
            ([invalid], 400),  # 7 remain
            ([("log", "nothing")], 400),  # 6
            ([invalid, EVENT], 200),  # 2
            ([("log", {"items": [0] * 10_001})], 413),  # 1
            ([invalid], 429),
            ([EVENT], 200),  # 0
            ([("log", "nothing")], 429),
        ]
    ):
        assert (await send(edge, *items)).status == status, number


async def test_nothing_is_acknowledged_before_it_is_durable(
    edge: RunningEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two records cannot be appended: 503, and the SDK's second attempt has the same identities."""
    append = edge.log.append

    def refuse_logs(topic: str, *rest: Any) -> "asyncio.Future[None]":
        if topic == topics.LOGS:
            raise StorageUnavailable("the disk is full")
        return append(topic, *rest)

    monkeypatch.setattr(edge.log, "append", refuse_logs)
    answer = await send(edge, EVENT, LOGS, ("session", {}))
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert edge.sentry.dropped.total == {} and edge.metrics.events_accepted == 0
    monkeypatch.undo()
    assert (await send(edge, EVENT, LOGS, ("session", {}))).status == 200
    first, second = await edge.appended()
    assert first.key == second.key and first.value == second.value
    assert len(await edge.appended(topics.LOGS)) == 1


async def test_dropped_items_become_a_metric_of_the_environment(edge: RunningEdge) -> None:
    for _ in range(2):
        await send(edge, EVENT, ("session", {}), ("made up", {}))
    await edge.sentry.dropped.flush()
    await edge.sentry.dropped.flush()
    [record] = await edge.appended(topics.METRICS)
    meta = decode_otlp_meta(record.meta)
    assert (meta.environment_id, meta.records) == ("env_1", 2)
    [resource] = msgspec.json.decode(record.value)["resourceMetrics"]
    [metric] = resource["scopeMetrics"][0]["metrics"]
    assert metric["name"] == "pharos.sentry.dropped_items"
    counts = {
        point["attributes"][0]["value"]["stringValue"]: point["asInt"]
        for point in metric["sum"]["dataPoints"]
    }
    assert counts == {"session": 2, "unknown": 2}
    samples = {
        (sample.labels["type"], sample.labels["reason"]): sample.value
        for family in edge.metrics.collect()
        if family.name == "pharos_edge_sentry_dropped_items"
        for sample in family.samples
    }
    assert samples == {("session", "not_kept"): 2, ("unknown", "not_kept"): 2}


async def test_counts_that_cannot_be_written_remain(
    edge: RunningEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(edge, EVENT, ("session", {}))

    def refuse(*_: Any) -> "asyncio.Future[None]":
        raise StorageUnavailable("the disk is full")

    monkeypatch.setattr(edge.log, "append", refuse)
    await edge.sentry.dropped.flush()
    monkeypatch.undo()
    await edge.sentry.dropped.flush()
    assert len(await edge.appended(topics.METRICS)) == 1


async def test_large_envelopes_are_converted_too(edge: RunningEdge) -> None:
    large = {"event_id": ID, "message": "x", "breadcrumbs": [{"message": "y" * 300_000}]}
    assert (await send(edge, ("event", large))).status == 200
    [record] = await edge.appended()
    [event] = json.loads(record.value)["events"]
    assert event["attributes"]["sentry.left_out"] == "breadcrumbs"
    assert (await send(edge, ("event", "[" * 300_000))).status == 400


async def test_costly_envelopes_are_read_in_a_thread(
    edge: RunningEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Envelopes with many bytes or many values are converted in a thread, even if they are refused. The others avoid
    the switch to a thread."""
    threads: list[bool] = []

    def watch(body: bytes) -> Envelope:
        threads.append(threading.get_ident() != event_loop)
        return read_envelope(body)

    event_loop = threading.get_ident()
    monkeypatch.setattr(accept, "read_envelope", watch)
    for items, status in [
        ([EVENT], 200),
        ([("log", {"items": [0] * 5_002})], 400),
        ([("session", "x" * 300_000), EVENT], 200),
    ]:
        assert (await send(edge, *items)).status == status
    blanks = b"{}\n" + b"\n" * 300_000
    assert (await edge.request("POST", ENVELOPE, data=blanks, headers=auth(edge.key))).status == 200
    assert threads == [False, True, True, True]


async def test_costly_envelopes_of_an_account_delay_no_other(
    edge: RunningEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    edge.sentry._slots = ConversionSlots(wait_seconds=0)
    other = await edge.issue_key(account_id="acc_other")
    started, held = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def block(body: bytes) -> Envelope:
        if b"block" in body:
            loop.call_soon_threadsafe(started.set)
            assert held.wait(30)
        return read_envelope(body)

    monkeypatch.setattr(accept, "read_envelope", block)
    large = ("session", "x" * 300_000)
    try:
        blocked = envelope(("session", "block" + "x" * 300_000), EVENT)
        first = asyncio.create_task(edge.request("POST", ENVELOPE, data=blocked, headers=auth(edge.key)))
        await started.wait()
        assert edge.budgets.bytes == len(blocked)
        refused = await send(edge, large)
        assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
        # A small envelope needs no slot.
        assert (await send(edge, EVENT)).status == 200
        answer = await edge.request("POST", ENVELOPE, data=envelope(large), headers=auth(other))
        assert answer.status == 200
    finally:
        held.set()
    assert (await first).status == 200
    assert edge.budgets.bytes == 0


async def test_key_in_an_event_is_masked(edge: RunningEdge) -> None:
    """Applications that take the DSN as an argument send it with each event."""
    event = {
        "event_id": ID,
        "message": "x",
        "extra": {"sys.argv": ["shop", f"https://{edge.key}@pharos.example/1"]},
    }
    assert (await send(edge, ("event", event))).status == 200
    [record] = await edge.appended()
    assert edge.key.encode() not in record.value and b"phr_ing_*****" in record.value


async def test_records_count_as_data_in_flight(edge: RunningEdge, monkeypatch: pytest.MonkeyPatch) -> None:
    append, held = edge.log.append, []

    def watch(topic: str, key: bytes, meta: bytes, body: bytes) -> "asyncio.Future[None]":
        held.append(edge.budgets.bytes - len(body))
        return append(topic, key, meta, body)

    monkeypatch.setattr(edge.log, "append", watch)
    assert (await send(edge, EVENT)).status == 200
    assert held == [len(envelope(EVENT))]
    assert edge.budgets.bytes == 0
