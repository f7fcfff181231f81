"""Every refusal of `POST /api/v1/ingest`, one row each: a request and its whole response. `docs/reference/errors.md`
shows the same rows to readers; `PHAROS_TEST_WRITE_DOCS=1` in the environment of this file's tests writes them there."""

import asyncio
import gzip
import json
import os
import random
import re
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.rate_limits import RateLimit
from storage_backends.key_directory.interface import KeyEntry

try:
    from compression import zstd
except ImportError:
    from backports import zstd

_DOCS = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"
_MIB = 2**20

# Type and title of each status.
_KINDS = {
    401: ("invalid-credential", "Missing or invalid credential"),
    404: ("not-found", "Not found"),
    405: ("method-not-allowed", "Method not allowed"),
    408: ("request-timeout", "The request took too long to arrive"),
    413: ("payload-too-large", "Payload too large"),
    415: ("unsupported-media-type", "Unsupported media type"),
    422: ("validation-failed", "Validation failed"),
    429: ("rate-limited", "Over the ingest rate"),
    503: ("unavailable", "Temporarily unavailable"),
}

Send = Callable[[Any], Awaitable[Any]]
Prepare = Callable[[Any, AsyncExitStack], Awaitable[None]]


@dataclass(frozen=True)
class Refusal:
    """A row. A `detail` that ends with … is only the beginning of the text; `answer_headers` are patterns."""

    request: str
    status: int
    detail: str
    send: Send
    fields: tuple[str, ...] = ()
    edge: dict[str, Any] = field(default_factory=dict)
    prepare: Prepare | None = None
    answer_headers: dict[str, str] = field(default_factory=dict)


def batch(*events: Any, batch_id: Any = "b-1", **members: Any) -> dict[str, Any]:
    return {"batch_id": batch_id, "events": list(events), **members}


LOG = {"type": "log"}
VALID = batch(LOG)
VALID_BYTES = json.dumps(VALID).encode()


def make_post(body: Any, **headers: str | None) -> Send:
    """Return a function that sends this body; headers that are None are omitted."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def send(edge: Any) -> Any:
        kept = {"Content-Type": "application/json", "Authorization": f"Bearer {edge.key}", **named}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await edge.request(
            "POST",
            "/api/v1/ingest",
            data=data,
            headers={name: value for name, value in kept.items() if value is not None},
            skip_auto_headers=["Content-Type"],
        )

    return send


def make_request(method: str, path: str) -> Send:
    async def send(edge: Any) -> Any:
        return await edge.request(method, path, headers={"Authorization": f"Bearer {edge.key}"})

    return send


def with_key(make: Callable[[Any], Awaitable[str]]) -> Send:
    async def send(edge: Any) -> Any:
        return await edge.post(VALID, {"Authorization": f"Bearer {await make(edge)}"})

    return send


async def _mistyped(edge: Any) -> str:
    return edge.key[:-1] + ("0" if edge.key[-1] != "0" else "1")


async def _invented(edge: Any) -> str:
    return make_credential(CredentialKind.INGEST_KEY)


async def _foreign(edge: Any) -> str:
    return "sk_live_" + edge.key[8:]


async def _expired(edge: Any) -> str:
    return await edge.issue_key(expires_ms=1_700_000_000_000)


async def _revoked(edge: Any) -> str:
    key = await edge.issue_key()
    await edge.directory.revoke(digest_credential(key))
    return key


async def _api_token(edge: Any) -> str:
    return await edge.issue_key(CredentialKind.API_TOKEN)


async def _monitor_key(edge: Any) -> str:
    return await edge.issue_key(CredentialKind.MONITOR_KEY)


class UnreachableDirectory:
    """A key directory whose engine is unreachable."""

    async def find(self, digest: bytes) -> KeyEntry | None:
        raise StorageUnavailable("away")

    def find_known(self, digest: bytes) -> None:
        return None

    async def publish(self, entry: KeyEntry) -> None: ...

    async def revoke(self, digest: bytes) -> None: ...

    async def close(self) -> None: ...


async def _declares_too_much(edge: Any) -> Any:
    # No byte of the body follows, so the edge refuses the head alone.
    return await edge.raw([edge.head(f"Content-Length: {5 * _MIB + 1}")])


async def _sends_too_many_chunks(edge: Any) -> Any:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b" " * _MIB
        yield b" "

    return await edge.post(chunks())


async def _trickles(edge: Any) -> Any:
    return await edge.raw([edge.head("Content-Length: 100"), VALID_BYTES])


async def _spend_all(edge: Any, stack: AsyncExitStack) -> None:
    assert (await edge.post(batch(*[LOG] * 10))).status == 202


async def _store_one(edge: Any, stack: AsyncExitStack) -> None:
    assert (await edge.post(VALID)).status == 202


async def _full_disk(edge: Any, stack: AsyncExitStack) -> None:
    await edge.fill_disk()
    stack.push_async_callback(edge.free_disk)


async def _occupy(edge: Any, stack: AsyncExitStack) -> None:
    """Another request of the account has sent 900 bytes of its unfinished body."""
    _, writer = await asyncio.open_connection("127.0.0.1", edge.port)
    stack.callback(writer.close)
    writer.write(edge.head("Content-Length: 901") + b" " * 900)
    while edge.budgets.bytes < 900:
        await asyncio.sleep(0.005)


def nested(levels: int) -> bytes:
    """Return a batch with this many levels of nesting."""
    lists = levels - 4
    return (
        b'{"batch_id":"b","events":[{"type":"log","attributes":{"a":' + b"[" * lists + b"]" * lists + b"}}]}"
    )


def _zstd_with_window(window_log: int) -> bytes:
    """Return an empty frame that declares this window (RFC 8878, 3.1.1.1.2)."""
    return b"\x28\xb5\x2f\xfd" + bytes([0, (window_log - 10) << 3]) + b"\x01\x00\x00"


_KEY_SHAPE = "This is not an ingest key: it must start with phr_ing_ and have a valid checksum."
_KEY_MISSING = "Send an ingest key as 'Authorization: Bearer phr_ing_…'."
_FIX = "The batch was not stored. Fix the fields listed below and send it again."
_NOT_JSON = "The body is not valid JSON: …"
_RANDOM = random.Random(7)
_NOISE = "".join(_RANDOM.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=100_000))


def invalid(request: str, body: Any, *fields: str, detail: str = _FIX) -> Refusal:
    return Refusal(request, 422, detail, make_post(body), fields)


def unreadable(request: str, body: bytes, coding: str) -> Refusal:
    return Refusal(
        request, 422, f"The body is not valid {coding} data.", make_post(body, Content_Encoding=coding), ("",)
    )


def event_with(request: str, field_name: str, value: Any) -> Refusal:
    return invalid(request, batch({"type": "log", field_name: value}), f"events[0].{field_name}")


TABLE = [
    Refusal("no `Authorization` header", 401, _KEY_MISSING, make_post(VALID, Authorization=None)),
    Refusal("another scheme (`Basic`)", 401, _KEY_MISSING, make_post(VALID, Authorization="Basic dTpw")),
    Refusal("`Bearer` without a key", 401, _KEY_MISSING, make_post(VALID, Authorization="Bearer")),
    Refusal("a key with another prefix", 401, _KEY_SHAPE, with_key(_foreign)),
    Refusal("a mistyped key (wrong check sum)", 401, _KEY_SHAPE, with_key(_mistyped)),
    Refusal("an API token", 401, _KEY_SHAPE, with_key(_api_token)),
    Refusal("a monitor key", 401, _KEY_SHAPE, with_key(_monitor_key)),
    Refusal("an unknown key", 401, "This key is not known, or was revoked.", with_key(_invented)),
    Refusal("a revoked key", 401, "This key is not known, or was revoked.", with_key(_revoked)),
    Refusal("an expired key", 401, "This key has expired.", with_key(_expired)),
    Refusal(
        "an address that does not exist",
        404,
        "There is nothing at this address.",
        make_request("POST", "/api/v1/nothing"),
    ),
    Refusal(
        "a slash too much", 404, "There is nothing at this address.", make_request("POST", "/api/v1/ingest/")
    ),
    *(
        Refusal(
            f"`{method}` instead of `POST`",
            405,
            "/api/v1/ingest takes POST only.",
            make_request(method, "/api/v1/ingest"),
            answer_headers={"Allow": "POST"},
        )
        for method in ("GET", "PUT", "DELETE", "OPTIONS")
    ),
    Refusal(
        "a body that arrives too late",
        408,
        "The body did not arrive within …",
        _trickles,
        edge={"body_timeout": 0.2},
    ),
    Refusal(
        "`Content-Length` over the limit",
        413,
        "The body is over 5242880 bytes. Send smaller batches.",
        _declares_too_much,
    ),
    Refusal(
        "a chunked body over the limit",
        413,
        "The body is over 5242880 bytes. Send smaller batches.",
        _sends_too_many_chunks,
    ),
    Refusal(
        "a compressed body that becomes too large",
        413,
        "The body is over 20971520 bytes when decompressed. Send smaller batches.",
        make_post(gzip.compress(b" " * (20 * _MIB + 1)), Content_Encoding="gzip"),
    ),
    Refusal(
        "too many events",
        413,
        "The batch has more than 1000 events. Send smaller batches.",
        make_post(batch(*[LOG] * 1001)),
    ),
    Refusal(
        "too many events, and invalid ones among them",
        413,
        "The batch has more than 1000 events. Send smaller batches.",
        make_post(batch({}, *[LOG] * 1000)),
    ),
    Refusal(
        "an event that is too large",
        413,
        "events[1] is over 262144 bytes.",
        make_post(batch(LOG, {"type": "log", "details": "x" * 2**18})),
    ),
    Refusal(
        "more events than the account's burst",
        413,
        "11 events are more than the account's burst of 10. Send smaller batches.",
        make_post(batch(*[LOG] * 11)),
        edge={"rate": RateLimit(5.0, 10)},
    ),
    *(
        Refusal(f"{what}", 415, "The body must be application/json.", make_post(VALID, Content_Type=content))
        for what, content in (
            ("no `Content-Type`", None),
            ("`Content-Type: text/plain`", "text/plain"),
            ("`Content-Type: application/x-protobuf`", "application/x-protobuf"),
            ("`Content-Type: application/x-www-form-urlencoded`", "application/x-www-form-urlencoded"),
            ("`Content-Type: application/jsonl`", "application/jsonl"),
        )
    ),
    *(
        Refusal(
            f"`Content-Encoding: {coding}`",
            415,
            f"Content-Encoding '{coding}' is not supported: gzip, deflate, zstd or none.",
            make_post(VALID, Content_Encoding=coding),
        )
        for coding in ("br", "gzip, gzip", "snappy")
    ),
    invalid("an empty body", b"", "", detail=_NOT_JSON),
    invalid("text that is not JSON", b"hello", "", detail=_NOT_JSON),
    invalid("JSON that is cut short", VALID_BYTES[:-1], "", detail=_NOT_JSON),
    invalid("something behind the JSON", VALID_BYTES + b"{}", "", detail=_NOT_JSON),
    invalid("a byte order mark", b"\xef\xbb\xbf" + VALID_BYTES, "", detail=_NOT_JSON),
    invalid("`NaN`", VALID_BYTES[:-3] + b',"duration_ms":NaN}]}', "", detail=_NOT_JSON),
    invalid(
        "a raw line break in a text", b'{"batch_id":"a\nb","events":[{"type":"log"}]}', "", detail=_NOT_JSON
    ),
    invalid(
        "a body that is not UTF-8",
        b'{"batch_id":"\xff"}',
        "",
        detail="The body is not valid UTF-8 (byte 13).",
    ),
    invalid(
        "text that is not UTF-8 inside a payload",
        b'{"batch_id":"b","events":[{"type":"log","payload":{"a":"\xe9"}}]}',
        "",
        detail="The body is not valid UTF-8 (byte 56).",
    ),
    invalid("JSON nested too deep", nested(1100), "", detail="The body is nested too deeply."),
    invalid(
        "too deep in a field that is ignored",
        b'{"batch_id":"b","events":[{"type":"log"}],"x":' + b"[" * 1100 + b"]" * 1100 + b"}",
        "",
        detail="The body is nested too deeply.",
    ),
    invalid("an array instead of an object", [LOG], ""),
    invalid("a text instead of an object", "batch", ""),
    invalid("`null` instead of an object", None, ""),
    invalid("an object without members", {}, "batch_id", "events"),
    invalid("no `batch_id`", {"events": [LOG]}, "batch_id"),
    invalid("`batch_id` null", batch(LOG, batch_id=None), "batch_id"),
    invalid("`batch_id` empty", batch(LOG, batch_id=""), "batch_id"),
    invalid("`batch_id` of 101 characters", batch(LOG, batch_id="x" * 101), "batch_id"),
    invalid("`batch_id` a number", batch(LOG, batch_id=7), "batch_id"),
    invalid("no `events`", {"batch_id": "b"}, "events"),
    invalid("`events` null", {"batch_id": "b", "events": None}, "events"),
    invalid("`events` an object", {"batch_id": "b", "events": {"0": LOG}}, "events"),
    invalid("`events` empty", batch(), "events", detail="events must have at least 1 item."),
    invalid("an event that is a number", batch(7), "events[0]"),
    invalid("an event that is null", batch(LOG, None), "events[1]"),
    invalid("an event that is an array", batch([LOG]), "events[0]"),
    invalid("an event without `type`", batch({"name": "x"}), "events[0].type"),
    invalid("`type` null", batch({"type": None}), "events[0].type"),
    invalid("an unknown `type`", batch({"type": "trace"}), "events[0].type"),
    invalid("`type` in capitals", batch({"type": "LOG"}), "events[0].type"),
    event_with("an unknown `severity`", "severity", "fatal"),
    event_with("`timestamp` that is none", "timestamp", "yesterday"),
    event_with("`timestamp` without a time zone", "timestamp", "2026-01-31T12:00:00"),
    event_with("`timestamp` of a day that does not exist", "timestamp", "2026-02-30T12:00:00Z"),
    event_with("`timestamp` a number", "timestamp", 1_790_000_000),
    event_with("`status_code` a text", "status_code", "200"),
    event_with("`status_code` with a fraction", "status_code", 200.5),
    event_with("`status_code` true", "status_code", True),
    event_with("`status_code` over 64 bits", "status_code", 2**63),
    event_with("`affected_users` below 64 bits", "affected_users", -(2**63) - 1),
    event_with("`affected_users` a list", "affected_users", [1]),
    event_with("`duration_ms` a text", "duration_ms", "12.5"),
    event_with("`duration_ms` false", "duration_ms", False),
    invalid(
        "`duration_ms` out of range",
        b'{"batch_id":"b","events":[{"type":"log","duration_ms":1e999}]}',
        "events[0].duration_ms",
    ),
    event_with("`attributes` an array", "attributes", []),
    event_with("`attributes` a number", "attributes", 5),
    event_with("`payload` a text", "payload", "{}"),
    event_with("`payload` false", "payload", False),
    invalid(
        "every text field a number",
        batch(
            {
                "type": "request",
                **dict.fromkeys(
                    (
                        "details",
                        "fingerprint",
                        "id",
                        "name",
                        "title",
                        "trace_id",
                        "span_id",
                        "parent_span_id",
                        "route",
                        "url",
                        "service",
                    ),
                    7,
                ),
            }
        ),
        "events[0].id",
        "events[0].name",
        "events[0].title",
        "events[0].trace_id",
        "events[0].span_id",
        "events[0].parent_span_id",
        "events[0].route",
        "events[0].url",
        "events[0].service",
        "events[0].fingerprint",
        "events[0].details",
    ),
    invalid(
        "several faults in several events",
        batch(
            {"type": "x", "severity": "y"}, LOG, 5, {"type": "job", "payload": [], "timestamp": 1}, batch_id=1
        ),
        "batch_id",
        "events[0].type",
        "events[0].severity",
        "events[2]",
        "events[3].timestamp",
        "events[3].payload",
    ),
    invalid(
        "a fault next to a huge number in `attributes`",
        b'{"batch_id":"","events":[{"type":"log","attributes":{"a":1e999}}]}',
        "batch_id",
    ),
    unreadable("`Content-Encoding: gzip`, but the body is not", VALID_BYTES, "gzip"),
    unreadable("truncated gzip", gzip.compress(VALID_BYTES)[:-9], "gzip"),
    unreadable("gzip with a wrong check sum", gzip.compress(VALID_BYTES)[:-8] + bytes(8), "gzip"),
    unreadable("something behind the gzip", gzip.compress(VALID_BYTES) + b"more", "gzip"),
    unreadable("gzip of more than 1,000 members", gzip.compress(b"") * 1001, "gzip"),
    unreadable("broken deflate", b"\x78\x9cno deflate", "deflate"),
    unreadable("truncated deflate", zlib.compress(VALID_BYTES)[:-5], "deflate"),
    unreadable("something behind the deflate", zlib.compress(VALID_BYTES) + b"more", "deflate"),
    unreadable("`Content-Encoding: zstd`, but the body is not", VALID_BYTES, "zstd"),
    unreadable("truncated zstd", zstd.compress(VALID_BYTES)[:-3], "zstd"),
    unreadable("zstd with a window over 8 MiB", _zstd_with_window(24), "zstd"),
    unreadable("zstd of more than 1,000 frames", zstd.compress(b"") * 1001, "zstd"),
    Refusal(
        "an empty body that claims to be gzip",
        422,
        "The body is not valid gzip data.",
        make_post(b"", Content_Encoding="gzip"),
        ("",),
    ),
    Refusal(
        "more events than the account may send now",
        429,
        "The account may send 0.1 events a second, 10 at once. Send the same request again in …",
        make_post(VALID),
        # The clock stands still, so that no token is added, however long the test takes.
        edge={"rate": RateLimit(0.1, 10), "clock": lambda: 100.0},
        prepare=_spend_all,
        answer_headers={
            "Retry-After": "10",
            "RateLimit-Policy": '"ingest";q=10;w=100',
            "RateLimit": '"ingest";r=0;t=100',
        },
    ),
    Refusal(
        "the event log is full",
        503,
        "The event log is full. Nothing was stored; send it again.",
        make_post(VALID),
        edge={"log_max_bytes": 0},
        prepare=_store_one,
        answer_headers={"Retry-After": "5"},
    ),
    Refusal(
        "the event log cannot be written (the disk is full)",
        503,
        "The event log cannot be written. Send the same request again.",
        make_post(batch({"type": "log", "details": _NOISE})),
        prepare=_full_disk,
        answer_headers={"Retry-After": "1"},
    ),
    Refusal(
        "too many bytes of other bodies in flight",
        503,
        "The edge is at its limit of data in flight. Send the same request again.",
        make_post(batch({"type": "log", "details": "x" * 200})),
        edge={"in_flight_bytes": 1000, "body_timeout": 600.0},
        prepare=_occupy,
        answer_headers={"Retry-After": "1"},
    ),
    Refusal(
        "the keys cannot be looked up",
        503,
        "The key cannot be checked now.",
        make_post(VALID),
        edge={"directory": UnreachableDirectory()},
        answer_headers={"Retry-After": "1"},
    ),
]


@pytest.mark.parametrize("row", TABLE, ids=[f"{row.status} {row.request}" for row in TABLE])
async def test_refusal_has_the_expected_response_and_stores_nothing(row, start_edge):
    edge = await start_edge(**row.edge)
    async with AsyncExitStack() as stack:
        if row.prepare is not None:
            await row.prepare(edge, stack)
        stored_before = edge.stored_records()
        held_before = edge.budgets.bytes

        answer = await row.send(edge)

        assert answer.status == row.status
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert re.fullmatch(r"[0-9a-f]{24,}", answer.headers["X-Request-Id"])
        document = answer.document()
        slug, title = _KINDS[row.status]
        assert document["type"] == f"/problems/{slug}"
        assert document["title"] == title
        assert document["status"] == row.status
        if row.detail.endswith("…"):
            assert document["detail"].startswith(row.detail[:-1])
        else:
            assert document["detail"] == row.detail
        assert answer.fields() == list(row.fields)
        assert all(error["message"] for error in document.get("errors", []))
        assert document.keys() - {"errors"} == {"type", "title", "status", "detail"}
        assert answer.headers.get("WWW-Authenticate") == ("Bearer" if row.status == 401 else None)
        for name, pattern in row.answer_headers.items():
            assert re.fullmatch(pattern, answer.headers[name]), name
        assert edge.stored_records() == stored_before
        assert edge.budgets.bytes == held_before


async def test_a_422_names_at_most_50_fields(edge):
    wrong = {"type": "x", "severity": "y", "status_code": "z"}
    answer = await edge.post(batch(*[wrong] * 20))
    assert answer.status == 422
    expected = [
        f"events[{index}].{name}" for index in range(20) for name in ("type", "severity", "status_code")
    ]
    assert answer.fields() == expected[:50]


async def test_batch_that_the_log_refused_costs_no_rate_and_can_be_resent(start_edge):
    # Refunded tokens expire after a second. The clock stands still, because the disk may take longer.
    edge = await start_edge(rate=RateLimit(0.001, 1), clock=lambda: 100.0)
    body = batch({"type": "log", "details": _NOISE})
    await edge.fill_disk()
    assert (await edge.post(body)).status == 503
    assert edge.log.stalled_reason() is not None
    await edge.free_disk()
    answer = await edge.post(body)
    assert answer.status == 202
    assert edge.stored_records() == 1
    assert edge.log.stalled_reason() is None


def test_no_two_rows_are_the_same():
    names = [(row.status, row.request) for row in TABLE]
    assert len(names) == len(set(names))


def rows_for_readers() -> str:
    """Return the table in Markdown, with a section for each status."""
    lines: list[str] = []
    for status, (slug, title) in _KINDS.items():
        rows = [row for row in TABLE if row.status == status]
        lines += [f"### {status} {title}", "", f"`type`: `/problems/{slug}`", ""]
        named = any(row.fields for row in rows)
        lines += ["| Request | `detail` |" + (" `errors[].field` |" if named else "")]
        lines += ["|---|---|" + ("---|" if named else "")]
        for row in rows:
            cells = [row.request, row.detail]
            if named:
                cells.append(", ".join(f"`{name}`" if name else "the body" for name in row.fields))
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def test_the_documentation_shows_every_row():
    marker = "<!-- rows -->\n"
    before, _, shown = _DOCS.read_text().partition(marker)
    if os.environ.get("PHAROS_TEST_WRITE_DOCS"):
        shown = "\n" + rows_for_readers()
        _DOCS.write_text(before + marker + shown)
    assert shown.strip() == rows_for_readers().strip()
