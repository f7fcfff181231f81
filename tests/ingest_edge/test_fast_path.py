"""The fast path: which requests take it, and that its responses and records equal those of the usual path."""

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest

from ingest_edge import fast_path as fast_path_module
from ingest_edge import http_server
from ingest_edge import intake as intake_module
from ingest_edge.accept import Accept
from ingest_edge.fast_path import FastPath, Pending
from ingest_edge.intake import Intake
from loadtests.bench.otlp_payloads import otlp_bodies
from pipeline_contracts import topics
from pipeline_contracts.errors import RecordTooLarge, StorageUnavailable
from pipeline_contracts.otlp.records import decode_otlp_meta
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.records import decode_meta
from storage_backends.key_directory.interface import KeyEntry
from tests.ingest_edge.conftest import INGEST, Answer, RunningEdge, StartEdge, _read_answer

JSON = "application/json"
PLAIN = f"Content-Type: {JSON}"


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Pending]:
    """Return the list of the requests that took the fast path."""
    pendings: list[Pending] = []
    end = FastPath.end

    def count(self: FastPath, pending: Pending) -> bytes:
        pendings.append(pending)
        return end(self, pending)

    monkeypatch.setattr(fast_path_module.FastPath, "end", count)
    return pendings


def batch(batch_id: str = "b-1", **more: Any) -> bytes:
    event = {"type": "log", "name": "started", "timestamp": "2026-11-27T10:00:00Z", **more}
    return json.dumps({"batch_id": batch_id, "events": [event]}).encode()


def head(
    edge: RunningEdge, *lines: str, path: str = INGEST, version: str = "1.1", key: str | None = None
) -> bytes:
    first = (f"POST {path} HTTP/{version}", "Host: edge", f"Authorization: Bearer {key or edge.key}")
    return "\r\n".join([*first, *lines, "", ""]).encode()


def request(edge: RunningEdge, body: bytes, *lines: str, **options: Any) -> bytes:
    return head(edge, *(lines or (PLAIN,)), f"Content-Length: {len(body)}", **options) + body


@contextlib.asynccontextmanager
async def connection(edge: RunningEdge) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def answers(edge: RunningEdge, sent: bytes, count: int = 1) -> list[Answer | None]:
    async with connection(edge) as (reader, writer), asyncio.timeout(20):
        writer.write(sent)
        return [await _read_answer(reader) for _ in range(count)]


async def test_only_a_plain_request_takes_it(
    edge: RunningEdge, taken: list[Pending], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A refusal of one request must not affect the next one.
    monkeypatch.setattr(Intake, "prefer_usual_path", lambda *_: None)
    valid = batch()
    packed = gzip.compress(valid)
    chunked = head(edge, PLAIN, "Transfer-Encoding: chunked")
    chunk, first, rest = (b"%x\r\n%b\r\n" % (len(each), each) for each in (valid, valid[:9], valid[9:]))
    expired = await edge.issue_key(expires_ms=1)
    cases: Mapping[str, tuple[bytes, int, int]] = {
        "plain": (request(edge, valid), 202, 1),
        "with its own request ID": (request(edge, valid, PLAIN, "X-Request-Id: my-id"), 202, 1),
        "a charset": (request(edge, valid, f"{PLAIN}; charset=utf-8"), 202, 0),
        "another type": (request(edge, valid, "Content-Type: text/plain"), 415, 0),
        "no type": (request(edge, valid, "Accept: */*"), 415, 0),
        "gzip": (request(edge, packed, PLAIN, "Content-Encoding: gzip"), 202, 1),
        "identity": (request(edge, valid, PLAIN, "Content-Encoding: identity"), 202, 1),
        "an uncommon name": (request(edge, packed, PLAIN, "Content-Encoding: x-gzip"), 202, 0),
        "an unknown coding": (request(edge, valid, PLAIN, "Content-Encoding: br"), 415, 0),
        "no gzip": (request(edge, valid, PLAIN, "Content-Encoding: gzip"), 422, 0),
        "one chunk": (chunked + chunk + b"0\r\n\r\n", 202, 1),
        "two chunks": (chunked + first + rest + b"0\r\n\r\n", 202, 1),
        "HTTP/1.0": (request(edge, valid, version="1.0"), 202, 0),
        "the last request": (request(edge, valid, PLAIN, "Connection: close"), 202, 0),
        "a query": (request(edge, valid, path=f"{INGEST}?a=1"), 202, 0),
        "no body": (request(edge, b""), 422, 0),
        "an invalid body": (request(edge, b"{}"), 422, 0),
        "no JSON": (request(edge, b"no"), 422, 0),
        "an unknown key": (request(edge, valid, key="pk_unknown"), 401, 0),
        "an expired key": (request(edge, valid, key=expired), 401, 0),
    }
    for name, (sent, status, fast) in cases.items():
        taken.clear()
        (answer,) = await answers(edge, sent)
        assert answer is not None, name
        assert (answer.status, len(taken)) == (status, fast), (name, answer.body)
    assert edge.budgets.bytes == 0


async def test_a_body_may_arrive_in_pieces_but_soon(
    start_edge: StartEdge, taken: list[Pending], monkeypatch: pytest.MonkeyPatch
) -> None:
    edge = await start_edge()
    small, medium, large = (batch(message="x" * size) for size in (100, 100_000, 140_000))
    chunked = head(edge, PLAIN, "Transfer-Encoding: chunked")
    chunk = b"%x\r\n%b\r\n" % (len(small), small)
    # In the first cases the wait for the rest has no timeout, in the others it ends immediately.
    cases: Mapping[str, tuple[float, list[bytes], int]] = {
        "in two pieces": (60, [request(edge, small)[:-5], small[-5:]], 1),
        "the head alone": (60, [request(edge, small)[: -len(small)], small], 1),
        "in many pieces": (60, [request(edge, medium)], 1),
        "too large": (60, [request(edge, large)], 0),
        "chunks in two pieces": (60, [chunked + chunk, b"0\r\n\r\n"], 0),
        "with Expect": (60, [request(edge, small, PLAIN, "Expect: 100-continue")[:-5], small[-5:]], 0),
        "of another key": (60, [request(edge, small, key="pk_unknown")[:-5]], 0),
        "late": (0, [request(edge, small)[:-5], small[-5:]], 0),
    }
    for name, (seconds, parts, fast) in cases.items():
        monkeypatch.setattr(http_server, "_ARRIVAL_SECONDS", seconds)
        taken.clear()
        async with connection(edge) as (reader, writer), asyncio.timeout(20):
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0.02)
            status = getattr(await _read_answer(reader), "status", None)
            # The connection stays usable.
            if status == 202:
                writer.write(request(edge, small))
                assert getattr(await _read_answer(reader), "status", None) == 202
        expected = 401 if name == "of another key" else 202
        assert (status, len(taken)) == (expected, fast + (expected == 202)), name
    assert edge.budgets.bytes == 0


async def test_connection_that_waits_for_a_body_is_not_idle(
    start_edge: StartEdge, taken: list[Pending], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "_ARRIVAL_SECONDS", 60.0)
    edge = await start_edge()
    sent = request(edge, batch())
    async with connection(edge) as (reader, writer), asyncio.timeout(20):
        writer.write(sent[:-5])
        while not any(handler._arriving for handler in edge.connections()):
            await asyncio.sleep(0.001)
        (handler,) = edge.connections()
        assert not handler.is_idle
        handler._next_keepalive_close_time = 0.0
        handler._process_keepalive()
        writer.write(sent[-5:])
        answer = await _read_answer(reader)
        assert answer is not None
        assert (answer.status, len(taken)) == (202, 1)


async def test_a_caller_that_leaves_before_its_body_arrived_leaves_nothing(
    start_edge: StartEdge, caplog: pytest.LogCaptureFixture
) -> None:
    edge = await start_edge()
    async with connection(edge) as (_, writer):
        writer.write(request(edge, batch())[:-5])
        async with asyncio.timeout(20):
            while not any(handler._arriving for handler in edge.connections()):
                await asyncio.sleep(0.001)
    async with asyncio.timeout(20):
        while edge.open_connections():
            await asyncio.sleep(0.001)
    assert (edge.budgets.bytes, await edge.appended(), caplog.records) == (0, [], [])


async def test_both_paths_respond_and_store_alike(edge: RunningEdge, taken: list[Pending]) -> None:
    valid = batch(message="Grüße \u0007")
    sent = [
        request(edge, valid, PLAIN, "X-Request-Id: r-1"),
        request(edge, valid, f"{PLAIN};", "X-Request-Id: r-1"),
    ]
    fast, usual = [(await answers(edge, each))[0] for each in sent]
    assert fast is not None
    assert usual is not None
    assert len(taken) == 1
    assert (fast.status, fast.body) == (usual.status, usual.body)
    assert sorted(fast.headers) == sorted(usual.headers)
    same = set(fast.headers) - {"Date", "Ratelimit"}
    assert {name: fast.headers[name] for name in same} == {name: usual.headers[name] for name in same}
    assert fast.headers["X-Request-Id"] == "r-1"
    first, second = await edge.appended()
    assert (first.key, first.value) == (second.key, second.value)
    metas = [decode_meta(record.meta) for record in (first, second)]
    assert abs(metas[0].received_ms - metas[1].received_ms) < 20_000
    assert [(m.account_id, m.project_id, m.environment_id, m.events, m.batch_id) for m in metas[:1]] == [
        (m.account_id, m.project_id, m.environment_id, m.events, m.batch_id) for m in metas[1:]
    ]
    assert edge.metrics.requests[INGEST, 202] == 2
    assert edge.metrics.events_accepted == 2


async def test_both_paths_of_otlp_respond_and_store_alike(
    start_edge: StartEdge, taken: list[Pending], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Intake, "prefer_usual_path", lambda *_: None)
    edge = await start_edge(protobuf=True)
    protobuf = "application/x-protobuf"
    no_spans = json.loads(otlp_bodies("traces", "json", 1)[0])
    spans = no_spans["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans[1]["spanId"] = "00"
    rejected = json.dumps(no_spans).encode()
    del spans[0], spans[1:]
    none_left = json.dumps(no_spans).encode()
    cases: list[tuple[str, str, bytes, int, int]] = [
        *(
            (signal, JSON, otlp_bodies(signal, "json", 1)[0], 200, 1)
            for signal in ("traces", "logs", "metrics")
        ),
        *((signal, protobuf, otlp_bodies(signal, "protobuf", 1)[0], 200, 1) for signal in ("traces", "logs")),
        ("metrics", protobuf, otlp_bodies("metrics", "protobuf", 1)[0], 200, 1),
        ("traces", JSON, rejected, 200, 1),
        ("traces", JSON, none_left, 200, 0),
        ("logs", JSON, b"{}", 200, 0),
        ("logs", JSON, b"no", 400, 0),
        ("logs", protobuf, b"no", 400, 0),
        ("logs", "text/plain", b"{}", 415, 0),
        ("profiles", JSON, b"{}", 404, 0),
    ]
    for signal, content_type, body, status, fast in cases:
        path, line = f"/api/v1/otlp/v1/{signal}", f"Content-Type: {content_type}"
        received = []
        taken.clear()
        for each in (line, f"{line};"):
            (answer,) = await answers(edge, request(edge, body, each, "X-Request-Id: r-1", path=path))
            assert answer is not None
            received.append(answer)
        first, second = received
        assert (first.status, second.status, len(taken)) == (status, status, fast), (signal, body[:80])
        assert first.body == second.body
        assert sorted(first.headers) == sorted(second.headers)
        same = set(first.headers) - {"Date", "Ratelimit"}
        assert {name: first.headers[name] for name in same} == {name: second.headers[name] for name in same}
    for topic in (topics.TRACES, topics.LOGS, topics.METRICS):
        records = await edge.appended(topic)
        assert len(records) == (6 if topic == topics.TRACES else 4)
        for fast_record, usual in zip(records[::2], records[1::2], strict=True):
            assert (fast_record.key, fast_record.value) == (usual.key, usual.value)
            one, two = decode_otlp_meta(fast_record.meta), decode_otlp_meta(usual.meta)
            assert msgspec.structs.replace(one, received_ms=0) == msgspec.structs.replace(two, received_ms=0)
    assert edge.budgets.bytes == 0
    log = HeldLog(edge, monkeypatch)
    for content_type, name in ((JSON, "json"), (protobuf, "protobuf")):
        taken.clear()
        received = []
        for line in (f"Content-Type: {content_type}", f"Content-Type: {content_type};"):
            body = otlp_bodies("logs", name, 1)[0]
            sent = request(edge, body, line, "X-Request-Id: r-2", path="/api/v1/otlp/v1/logs")
            waiting = asyncio.create_task(answers(edge, sent))
            await log.wait_for(len(log.appends) + 1)
            log.appends[-1].set_exception(StorageUnavailable("away"))
            (answer,) = await waiting
            assert answer is not None
            received.append(answer)
        assert (received[0].status, received[0].body) == (503, received[1].body)
        assert sorted(received[0].headers) == sorted(received[1].headers)
        assert len(taken) == 1


async def test_account_takes_the_usual_path_for_a_second_after_a_refusal(
    edge: RunningEdge, taken: list[Pending], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = intake_module.monotonic()
    monkeypatch.setattr(intake_module, "monotonic", lambda: now)
    counts = []
    for body in (batch(), b"no", batch()):
        await answers(edge, request(edge, body))
        counts.append(len(taken))
    now += 1.0
    await answers(edge, request(edge, batch()))
    assert [*counts, len(taken)] == [1, 1, 1, 2]


async def test_requests_in_one_piece_are_answered_in_their_order(
    edge: RunningEdge, taken: list[Pending]
) -> None:
    live = b"GET /health/live HTTP/1.1\r\nHost: edge\r\nX-Request-Id: n-%d\r\n\r\n"
    sent = b"".join(
        live % n if n % 3 == 2 else request(edge, batch(f"b-{n}"), PLAIN, f"X-Request-Id: n-{n}")
        for n in range(30)
    )
    received = await answers(edge, sent, 30)
    assert [each and each.headers["X-Request-Id"] for each in received] == [f"n-{n}" for n in range(30)]
    assert [each and each.status for each in received] == [200 if n % 3 == 2 else 202 for n in range(30)]
    assert len(taken) > 0
    assert len(await edge.appended()) == 20


class HeldLog:
    """Holds every append until the test lets it end."""

    def __init__(self, edge: RunningEdge, monkeypatch: pytest.MonkeyPatch) -> None:
        self.appends: list[asyncio.Future[None]] = []
        monkeypatch.setattr(type(edge.log), "append", lambda *_: self._append())

    def _append(self) -> "asyncio.Future[None]":
        self.appends.append(asyncio.get_running_loop().create_future())
        return self.appends[-1]

    async def wait_for(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.appends) < count:
                await asyncio.sleep(0.001)


async def test_record_that_may_be_lost_is_refused_and_costs_no_quota(
    edge: RunningEdge, taken: list[Pending], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = HeldLog(edge, monkeypatch)
    refused: list[Answer] = []
    for sent in (request(edge, batch()), request(edge, batch(), f"{PLAIN};")):
        waiting = asyncio.create_task(answers(edge, sent))
        await log.wait_for(len(refused) + 1)
        assert edge.budgets.bytes == len(batch())
        log.appends[-1].set_exception(StorageUnavailable("away"))
        (answer,) = await waiting
        assert answer is not None
        assert (answer.status, edge.budgets.bytes) == (503, 0)
        refused.append(answer)
    fast, usual = refused
    assert len(taken) == 1
    assert fast.document() == usual.document()
    assert sorted(fast.headers) == sorted(usual.headers)
    assert edge.metrics.events_accepted == 0
    waiting = asyncio.create_task(answers(edge, request(edge, batch())))
    await log.wait_for(3)
    log.appends[-1].set_result(None)
    (answer,) = await waiting
    assert answer is not None
    assert answer.headers["Ratelimit"].startswith('"ingest";r=999999;'), answer.headers


async def test_an_append_that_is_refused_at_once_takes_the_usual_path(
    edge: RunningEdge, taken: list[Pending], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise StorageUnavailable("away")

    monkeypatch.setattr(type(edge.log), "append", refuse)
    (answer,) = await answers(edge, request(edge, batch()))
    assert answer is not None
    assert (answer.status, taken, edge.budgets.bytes) == (503, [], 0)


async def test_a_caller_that_hangs_up_does_not_withdraw_its_record(
    edge: RunningEdge, taken: list[Pending], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = HeldLog(edge, monkeypatch)
    async with connection(edge) as (_, writer):
        writer.write(request(edge, batch()))
        await log.wait_for(1)
    async with asyncio.timeout(10):
        while edge.open_connections():
            await asyncio.sleep(0.001)
    log.appends[0].set_result(None)
    await asyncio.sleep(0)
    assert len(taken) == 1
    assert (edge.metrics.events_accepted, edge.budgets.bytes) == (1, 0)
    assert not caplog.records


async def test_a_connection_is_busy_until_the_record_is_durable(
    edge: RunningEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = HeldLog(edge, monkeypatch)
    async with connection(edge) as (reader, writer):
        writer.write(request(edge, batch()))
        await log.wait_for(1)
        (handler,) = edge.connections()
        closes_at = handler._next_keepalive_close_time
        # Otherwise the edge might close it for a new connection.
        assert not handler.is_idle
        # Bytes that arrive meanwhile wait: an unfinished head, then its end.
        writer.write(b"GET /health/live HT")
        await writer.drain()
        writer.write(b"TP/1.1\r\nHost: edge\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.02)
        writer.write(b"no request\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.02)
        log.appends[0].set_result(None)
        received = [await _read_answer(reader) for _ in range(3)]
        assert [each and each.status for each in received] == [202, 200, 400]
        assert handler._next_keepalive_close_time > closes_at


async def test_a_connection_that_waits_for_the_log_is_not_closed_as_idle(
    start_edge: StartEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    edge = await start_edge()
    log = HeldLog(edge, monkeypatch)
    async with connection(edge) as (reader, writer):
        writer.write(request(edge, batch()))
        await log.wait_for(1)
        (handler,) = edge.connections()
        handler._keepalive_timeout = 0.02
        handler._next_keepalive_close_time = 0.0
        handler._process_keepalive()
        assert handler.transport is not None
        await asyncio.sleep(0.1)
        log.appends[0].set_result(None)
        answer = await _read_answer(reader)
        assert answer is not None
        assert answer.status == 202
        # Then it is idle, and the timer still runs.
        assert await asyncio.wait_for(reader.read(), 10) == b""


async def test_a_connection_keeps_no_body_after_its_request(edge: RunningEdge, taken: list[Pending]) -> None:
    async with connection(edge) as (reader, writer):
        writer.write(request(edge, batch(message="x" * 10_000)))
        assert getattr(await _read_answer(reader), "status", None) == 202
        (handler,) = edge.connections()
        assert len(taken) == 1
        assert sum(map(len, handler._payload._buffer)) == 0


async def test_a_fault_after_the_append_stores_nothing_twice(
    edge: RunningEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> bytes:
        monkeypatch.undo()
        raise RuntimeError("a fault")

    monkeypatch.setattr(Accept, "_receipt", fail)
    (answer,) = await answers(edge, request(edge, batch()))
    assert answer is not None
    assert (answer.status, len(await edge.appended()), edge.budgets.bytes) == (202, 1, 0)


@pytest.mark.parametrize("status", [503, 429, 413])
async def test_a_body_is_decoded_once_if_it_cannot_be_stored_now(
    edge: RunningEdge, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    decoded: list[bytes] = []
    read = Accept._read_batch

    def count(self: Accept, key: KeyEntry, body: bytes, received_ms: int) -> Any:
        decoded.append(body)
        return read(self, key, body, received_ms)

    def refuse(*_: Any) -> None:
        raise StorageUnavailable("away")

    monkeypatch.setattr(Accept, "_read_batch", count)
    key, body = edge.key, batch()
    if status == 503:
        monkeypatch.setattr(type(edge.log), "append", refuse)
    else:
        key = await edge.issue_key(limit=RateLimit(rate=0.001, burst=1))
        if status == 429:
            await answers(edge, request(edge, body, key=key))
        else:
            body = json.dumps({"batch_id": "b-1", "events": json.loads(body)["events"] * 2}).encode()
    counts = []
    for _ in range(3):
        decoded.clear()
        (answer,) = await answers(edge, request(edge, body, key=key))
        assert answer is not None
        assert answer.status == status
        counts.append(len(decoded))
    # The first request found out that tokens are missing.
    assert counts == [2, 1, 1]


async def test_a_request_that_arrives_while_another_one_waits_may_arrive_in_pieces(
    edge: RunningEdge, taken: list[Pending], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A connection that stopped reading would end this test by its timeout.
    monkeypatch.setattr(http_server, "_ARRIVAL_SECONDS", 60.0)
    log = HeldLog(edge, monkeypatch)
    sent = request(edge, batch("b-1")), request(edge, batch("b-2"))
    async with connection(edge) as (reader, writer), asyncio.timeout(20):
        writer.write(sent[0] + sent[1][:-20])
        await log.wait_for(1)
        log.appends[0].set_result(None)
        first = await _read_answer(reader)
        writer.write(sent[1][-20:])
        await log.wait_for(2)
        log.appends[1].set_result(None)
        second = await _read_answer(reader)
    assert [each is not None and each.status for each in (first, second)] == [202, 202]
    assert len(taken) == 2


async def test_a_record_that_the_brokers_never_take_is_too_large(
    edge: RunningEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = HeldLog(edge, monkeypatch)
    for number, content_type in enumerate((PLAIN, f"{PLAIN};")):
        waiting = asyncio.create_task(answers(edge, request(edge, batch(), content_type)))
        await log.wait_for(number + 1)
        log.appends[-1].set_exception(RecordTooLarge("refused"))
        (answer,) = await waiting
        assert answer is not None
        assert answer.status == 413
        assert "max.message.bytes" in answer.document()["detail"]


async def test_a_shutdown_waits_for_the_record(
    start_edge: StartEdge, taken: list[Pending], monkeypatch: pytest.MonkeyPatch
) -> None:
    edge = await start_edge()
    log = HeldLog(edge, monkeypatch)
    async with connection(edge) as (reader, writer):
        writer.write(request(edge, batch()))
        await log.wait_for(1)
        stopping = asyncio.create_task(edge.runner.cleanup())
        await asyncio.sleep(0.05)
        assert not stopping.done()
        log.appends[0].set_result(None)
        answer = await _read_answer(reader)
        assert answer is not None
        assert (answer.status, len(taken)) == (202, 1)
        await asyncio.wait_for(stopping, 10)


async def test_a_fault_of_the_fast_path_leaves_the_request_to_the_usual_one(
    start_edge: StartEdge, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(Accept, "begin", fail)
    edge = await start_edge()
    (answer,) = await answers(edge, request(edge, batch()))
    assert answer is not None
    assert answer.status == 202
    assert "the fast path failed" in caplog.text
