"""Random and mutated bodies: no 5xx, and what the edge lets in, the consumer reads.

`make test` draws 300 random documents, `make test-full` 3,000 more: drawing one takes 7 ms, checking it far less.
"""

import json
import random
import zlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from consumers.transforms.telemetry_rows import telemetry_rows
from ingest_edge.body import decompress
from ingest_edge.decoders.telemetry import decode_batch
from ingest_edge.limits import Limits
from pipeline_contracts.errors import Problem
from pipeline_contracts.records import BatchMeta
from pipeline_contracts.settings import Settings

# Ten thousand bodies take half a minute of CPU, and many times that on a machine that others work on.
pytestmark = pytest.mark.timeout(900)

LIMITS = Limits.from_settings(
    Settings(max_event_bytes=4096, max_batch_events=20, max_decompressed_bytes=200_000)
)

_EVENT: dict[str, Any] = {
    "type": "request",
    "id": "e",
    "severity": "info",
    "timestamp": "2026-11-20T21:31:54.123Z",
    "status_code": 200,
    "duration_ms": 1.5,
    "route": "/orders/{id}",
    "details": 'a "quoted" [text] \\ with\nbreaks {',
    "attributes": {"a": [1, {"b": None}], "position": 3},
    "payload": {},
}
_VALID = json.dumps({"batch_id": "b", "events": [_EVENT, {"type": "log"}, _EVENT]}).encode()

_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(
        ["request", "log", "info", "2026-11-20T21:31:54Z", "2026-02-30T00:00:00Z", "\ud800", "\0"]
    )
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
_names = st.sampled_from(
    [
        *_EVENT,
        "trace_id",
        "affected_users",
        "name",
        "account_id",
        "environment_id",
        "position",
        "log",
        "log_offset",
        "x",
    ]
)
_events = st.lists(
    st.dictionaries(_names, _values, max_size=8).map(lambda event: {"type": "log", **event}) | _values,
    max_size=5,
)
_batches = st.fixed_dictionaries(
    {}, optional={"batch_id": st.just("b") | _values, "events": _events | _values, "more": _values}
)
_pieces = [
    b'"', b"{", b"}", b"[", b"]", b"\\", b"\\u0000", b"\\ud83d", b"\xff", b"\xc3", b"\0", b"null", b"1e999", b"-0",
    b"[" * 70, b'{"a":' * 70, b'"events":', b',"type":"job"', b"\n", b"9" * 40, b"\xe2\x80\xa8", b'"}],"',
]  # fmt: skip


def _mutate(chance: random.Random, body: bytes) -> bytes:
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(body) + 1)
        end = min(len(body), place + chance.randint(0, 12))
        kind = chance.randrange(5)
        if kind == 0:
            body = body[:place] + chance.choice(_pieces) + body[place:]
        elif kind == 1:
            body = body[:place] + body[end:]
        elif kind == 2:
            body = body[:place] + chance.randbytes(end - place) + body[end:]
        elif kind == 3:
            body = body[:place] + body[place:end] * chance.randint(2, 40) + body[end:]
        else:
            body = body[:place]
    return body


def _check(body: bytes, coding: str = "identity") -> bool:
    """Whether the edge takes the body; whatever it does, it does it in an orderly way."""
    try:
        plain = decompress(body, coding, LIMITS.decompressed_bytes)
        batch, plain = decode_batch(plain, LIMITS)
    except Problem as problem:
        assert 400 <= problem.status < 500
        assert (problem.status == 422) == bool(problem.errors)
        return False
    meta = BatchMeta("a", "p", "e", 1_795_000_000_000, len(batch.events), batch.batch_id)
    rows = telemetry_rows(plain, meta, "r", "l", 0)
    lines = rows.lines.splitlines()
    assert rows.rows == len(batch.events) <= len(lines)
    assert [json.loads(line)["position"] for line in _whole_lines(rows.lines)] == list(range(rows.rows))
    return True


def _whole_lines(lines: bytes) -> list[bytes]:
    # A raw member may hold line breaks of its own, so rows are told by decoding one behind the other.
    decoder = json.JSONDecoder(strict=False)
    text = lines.decode("utf-8", "surrogatepass")
    rows = []
    place = 0
    while place < len(text):
        _, end = decoder.raw_decode(text, place)
        rows.append(text[place:end].encode("utf-8", "surrogatepass"))
        place = end + 1
    return rows


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(_batches | _values)
def test_random_documents(document: Any) -> None:
    _check(json.dumps(document).encode("utf-8", "surrogatepass"))


@pytest.mark.full
@settings(max_examples=3000, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(_batches | _values)
def test_thousands_of_random_documents(document: Any) -> None:
    _check(json.dumps(document).encode("utf-8", "surrogatepass"))


@settings(max_examples=1000, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=300), st.sampled_from(["identity", "gzip", "deflate", "zstd"]))
def test_random_bytes(body: bytes, coding: str) -> None:
    _check(body, coding)


def test_mutated_bodies() -> None:
    chance = random.Random(7)
    taken = sum(_check(_mutate(chance, _VALID)) for _ in range(4000))
    assert 100 < taken < 3900, "the mutations are neither all harmless nor all fatal"


def test_mutated_compressed_bodies() -> None:
    chance = random.Random(11)
    packed = zlib.compress(_VALID * 3, wbits=31)
    for _ in range(1000):
        _check(_mutate(chance, packed), "gzip")


async def test_mutated_bodies_over_http(edge: Any) -> None:
    chance = random.Random(13)
    statuses = set()
    for number in range(2000):
        body = _mutate(chance, _VALID)
        headers = {}
        if number % 4 == 0:
            body = (
                _mutate(chance, zlib.compress(body, wbits=31))
                if number % 8
                else zlib.compress(body, wbits=31)
            )
            headers["Content-Encoding"] = "gzip"
        statuses.add((await edge.post(body, headers)).status)
    assert statuses <= {202, 413, 422}
    assert {202, 422} <= statuses
