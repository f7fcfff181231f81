"""Bodies: exact limits, every content encoding, and broken connections."""

import asyncio
import gzip
import json
import zlib

import pytest

from ingest_edge.body import decompress
from ingest_edge.body_budget import BodyBudget
from pipeline_contracts.errors import InvalidInput, PayloadTooLarge, Unavailable
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.records import decode_meta

try:
    from compression import zstd
except ImportError:
    from backports import zstd

BATCH = b'{"batch_id":"b-1","events":[{"type":"log"}]}'


def raw_deflate(data: bytes) -> bytes:
    encoder = zlib.compressobj(wbits=-15)
    return encoder.compress(data) + encoder.flush()


def padded(size: int) -> bytes:
    """Return a valid batch of exactly this many bytes."""
    return BATCH.ljust(size)


def with_members(data: bytes) -> bytes:
    return gzip.compress(data[:10]) + gzip.compress(b"") + gzip.compress(data[10:])


def with_frames(data: bytes) -> bytes:
    skippable = b"\x50\x2a\x4d\x18\x04\x00\x00\x00skip"
    return zstd.compress(data[:10]) + skippable + zstd.compress(data[10:])


CODINGS = {
    "no encoding": (None, lambda data: data),
    "identity": ("identity", lambda data: data),
    "gzip": ("gzip", gzip.compress),
    "gzip by its old name": ("x-gzip", gzip.compress),
    "gzip in capitals": (" GZIP ", gzip.compress),
    "gzip of several members": ("gzip", with_members),
    "deflate, zlib": ("deflate", zlib.compress),
    "deflate, raw": ("deflate", raw_deflate),
    "zstd": ("zstd", zstd.compress),
    "zstd of several frames": ("zstd", with_frames),
    "zstd, best": ("zstd", lambda data: zstd.compress(data, level=19)),
}


@pytest.mark.parametrize("name", CODINGS)
async def test_every_content_encoding_stores_the_plain_body(name, edge):
    coding, encode = CODINGS[name]
    headers = {} if coding is None else {"Content-Encoding": coding}
    answer = await edge.post(encode(BATCH), headers)
    assert answer.status == 202
    (record,) = await edge.appended()
    assert record.value == BATCH
    assert edge.budgets.bytes == 0


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8;x=y",
        "Application/JSON",
        "application/json ; v=1",
    ],
)
async def test_parameters_and_case_of_the_content_type_do_not_matter(content_type, edge):
    assert (await edge.post(BATCH, {"Content-Type": content_type})).status == 202


OPTIONAL = (
    "id",
    "severity",
    "name",
    "title",
    "timestamp",
    "trace_id",
    "span_id",
    "parent_span_id",
    "route",
    "url",
    "service",
    "status_code",
    "duration_ms",
    "fingerprint",
    "affected_users",
    "details",
    "attributes",
    "payload",
)
VALID_BATCHES = {
    "optional fields null": {"batch_id": "b", "events": [{"type": "log", **dict.fromkeys(OPTIONAL)}]},
    "unknown fields": {"batch_id": "b", "x": [1, {}], "events": [{"type": "job", "y": {"z": None}}]},
    "all fields": {
        "batch_id": "b",
        "events": [
            {
                "type": "request",
                "id": "1",
                "severity": "critical",
                "name": "n",
                "title": "t",
                "timestamp": "2026-01-31T12:00:00.123+05:30",
                "trace_id": "t",
                "span_id": "s",
                "parent_span_id": "p",
                "route": "/",
                "url": "https://shop.example/",
                "service": "shop",
                "status_code": 200,
                "duration_ms": 1.5,
                "fingerprint": "f",
                "affected_users": 3,
                "details": "d",
                "attributes": {"a": {"b": [1, 2]}},
                "payload": {},
            }
        ],
    },
    "every type": {
        "batch_id": "b",
        "events": [{"type": t} for t in ("request", "query", "job", "exception", "log", "metric")],
    },
    "whole number as duration": {"batch_id": "b", "events": [{"type": "query", "duration_ms": 12}]},
    "numbers at the ends of 64 bits": {
        "batch_id": "b",
        "events": [{"type": "log", "status_code": 2**63 - 1, "affected_users": -(2**63)}],
    },
    "batch_id of one character": {"batch_id": "x", "events": [{"type": "log"}]},
    "batch_id of 100 characters beyond the basic plane": {
        "batch_id": "🦔" * 100,
        "events": [{"type": "log"}],
    },
    "texts in many scripts": {
        "batch_id": "ключ-鍵-🔑",
        "events": [{"type": "log", "name": "na\u0000ïve \u202e"}],
    },
    "row columns as a client's own fields": {
        "batch_id": "b",
        "events": [{"type": "log", "position": "x", "environment_id": ["env_2"], "log_offset": {}}],
    },
}


@pytest.mark.parametrize("escaped", [True, False], ids=["escaped", "as UTF-8"])
@pytest.mark.parametrize("name", VALID_BATCHES)
async def test_valid_batches_are_stored_byte_for_byte(name, escaped, edge):
    sent = VALID_BATCHES[name]
    body = json.dumps(sent, ensure_ascii=escaped).encode()
    answer = await edge.post(body)
    assert answer.status == 202, answer.body
    (record,) = await edge.appended()
    assert record.value == body
    meta = decode_meta(record.meta)
    assert (meta.batch_id, meta.events) == (sent["batch_id"], len(sent["events"]))
    assert meta.environment_id == edge.environment_id


async def chunks_of(body: bytes):
    for begin in range(0, len(body), 1000):
        yield body[begin : begin + 1000]


@pytest.mark.parametrize("chunked", [False, True], ids=["declared", "chunked"])
async def test_body_limit_to_the_byte(chunked, start_edge):
    edge = await start_edge(body_bytes=5000)
    for size, status in ((5000, 202), (5001, 413)):
        body = padded(size)
        assert (await edge.post(chunks_of(body) if chunked else body)).status == status
    assert edge.budgets.bytes == 0


@pytest.mark.parametrize(
    "name", [name for name, (coding, _) in CODINGS.items() if coding not in (None, "identity")]
)
@pytest.mark.parametrize("limit", [5000, 300_000])
async def test_decompressed_limit_to_the_byte(name, limit, start_edge):
    coding, encode = CODINGS[name]
    edge = await start_edge(decompressed_bytes=limit)
    for size, status in ((limit, 202), (limit + 1, 413)):
        answer = await edge.post(encode(padded(size)), {"Content-Encoding": coding})
        assert answer.status == status
    assert edge.stored_records() == 1
    assert edge.budgets.bytes == 0


async def test_event_count_limit_to_the_event(start_edge):
    edge = await start_edge(batch_events=7)
    for count, status in ((7, 202), (8, 413)):
        assert (await edge.post({"batch_id": "b", "events": [{"type": "log"}] * count})).status == status


@pytest.mark.parametrize("around", [1, 5000], ids=["in a small body", "in a large body"])
async def test_event_size_limit_to_the_byte(around, start_edge):
    edge = await start_edge(event_bytes=1000)
    frame = len(json.dumps({"type": "log", "details": ""}))
    for size, status in ((1000, 202), (1001, 413)):
        event = {"type": "log", "details": "x" * (size - frame)}
        assert len(json.dumps(event)) == size
        body = json.dumps({"batch_id": "b", "events": [event]}).encode()
        assert (await edge.post(body.ljust(around))).status == status


async def test_64_levels_of_nesting_are_supported_and_undecodable_bodies_refused(edge):
    for depth, status in ((64, 202), (1100, 422), (500_000, 422)):
        inner = "[" * (depth - 4) + "]" * (depth - 4)
        body = f'{{"batch_id":"b","events":[{{"type":"log","payload":{{"a":{inner}}}}}]}}'.encode()
        assert (await edge.post(body)).status == status


async def test_burst_to_the_event(start_edge):
    edge = await start_edge(rate=RateLimit(0.001, 5))
    for count, status in ((6, 413), (5, 202), (1, 429)):
        assert (await edge.post({"batch_id": "b", "events": [{"type": "log"}] * count})).status == status


async def test_a_connection_cut_in_mid_body_stores_nothing_and_frees_its_budget(edge):
    declared = edge.head(f"Content-Length: {len(BATCH) + 1}") + BATCH
    in_chunks = edge.head("Transfer-Encoding: chunked") + f"{len(BATCH):x}\r\n".encode() + BATCH + b"\r\n"
    for sent in (declared, in_chunks) * 2:
        _, writer = await asyncio.open_connection("127.0.0.1", edge.port)
        writer.write(sent)
        await writer.drain()
        async with asyncio.timeout(60):
            while not edge.budgets.bytes:
                await asyncio.sleep(0.005)
            writer.transport.abort()
            while edge.budgets.bytes:
                await asyncio.sleep(0.005)
    assert edge.stored_records() == 0
    assert (await edge.post(BATCH)).status == 202


async def test_bytes_after_a_body_are_another_request(edge):
    request = edge.head(f"Content-Length: {len(BATCH)}") + BATCH
    assert (await edge.raw([request + request])).status == 202
    while edge.stored_records() < 2:
        await asyncio.sleep(0.005)
    assert (await edge.raw([request + b"garbage"])).status == 400
    assert edge.stored_records() == 2


async def test_body_sent_byte_by_byte_is_complete(edge):
    answer = await edge.raw([edge.head(f"Content-Length: {len(BATCH)}"), *(bytes([b]) for b in BATCH)])
    assert answer.status == 202


async def test_expect_continue_is_answered(edge):
    head = edge.head(f"Content-Length: {len(BATCH)}", "Expect: 100-continue")
    answer = await edge.raw([head, BATCH])
    assert answer.status == 202


async def test_invalid_chunks_are_a_client_error(edge):
    answer = await edge.raw([edge.head("Transfer-Encoding: chunked") + b"zz\r\nhello\r\n"])
    assert answer.status == 400
    assert edge.stored_records() == 0


async def test_only_request_is_never_refused_for_the_budget(start_edge):
    edge = await start_edge(in_flight_bytes=2000)
    body = padded(5000)
    assert (await edge.post(body)).status == 202
    assert (await edge.post(chunks_of(body))).status == 202
    assert (await edge.post(gzip.compress(body, 0), {"Content-Encoding": "gzip"})).status == 202
    assert edge.budgets.bytes == 0


def test_budget_counts_the_bytes_of_other_requests():
    budget = BodyBudget(100, 100)
    mine, other = budget.lease("acc_1"), budget.lease("acc_2")
    mine.take(40)
    other.take(40)
    mine.take(20)
    for lease in (mine, other):
        with pytest.raises(Unavailable):
            lease.take(1)
    mine.release(1)
    other.take(1)
    mine.release()
    other.release()
    assert budget.bytes == 0
    # An only request may have any size.
    other.take(1000)
    other.take(1000)


def test_a_sender_has_a_share_of_the_budget():
    budget = BodyBudget(100, 60)
    leases = [budget.lease("acc_1"), budget.lease("acc_1"), budget.lease("acc_2")]
    first, second, other = leases
    first.take(50)
    with pytest.raises(Unavailable, match="of this sender"):
        second.take(11)
    second.take(10)
    other.take(40)
    with pytest.raises(Unavailable, match="The edge is at its limit"):
        other.take(1)
    for lease in leases:
        lease.release()
    assert budget.bytes == 0
    # Senders without bytes are removed, so that addresses do not accumulate.
    assert not budget._held


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd"])
@pytest.mark.parametrize("size", [0, 1, 65_536, 262_144, 262_145, 1_000_000])
def test_decompress_returns_the_original(coding, size):
    data = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    encode = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstd.compress}[coding]
    assert decompress(encode(data), coding, size) == data
    if size:
        with pytest.raises(PayloadTooLarge):
            decompress(encode(data), coding, size - 1)


def test_incompressible_data_over_many_slices():
    data = b"".join(zlib.crc32(bytes([n & 255, n >> 8])).to_bytes(4) for n in range(65_536))
    for coding, encode in (("gzip", gzip.compress), ("deflate", raw_deflate), ("zstd", zstd.compress)):
        assert decompress(encode(data), coding, len(data)) == data


@pytest.mark.parametrize(
    ("coding", "member"), [("gzip", gzip.compress(b"")), ("zstd", zstd.compress(b""))], ids=["gzip", "zstd"]
)
def test_at_most_a_thousand_members_are_decompressed(coding, member):
    assert decompress(member * 1000, coding, 10) == b""
    with pytest.raises(InvalidInput):
        decompress(member * 1001, coding, 10)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd"])
def test_every_truncation_is_refused(coding):
    encode = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstd.compress}[coding]
    whole = encode(BATCH)
    for length in range(len(whole)):
        with pytest.raises(InvalidInput):
            decompress(whole[:length], coding, 1000)
