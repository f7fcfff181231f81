"""Ping URLs at the edge: accepted and refused pings. No response or log line has the key."""

import asyncio
import contextlib
import json
import logging
import uuid
from typing import Any

import msgspec
import pytest

from ingest_edge.accept_monitors import BODY_SECONDS
from ingest_edge.accept_pings import OUTPUT_BYTES
from pipeline_contracts import topics
from pipeline_contracts.credentials import CredentialKind, make_credential
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.monitors import MonitorMeta, Ping
from pipeline_contracts.rate_limits import RateLimit
from tests.ingest_edge.conftest import RunningEdge, StartEdge

RID = "0190f3c2-7b5e-7a10-8c3d-2f4b6a8c0e1f"

TAKEN: list[tuple[str, str, bytes | None, dict[str, Any]]] = [
    # Method, path after the key, body; then the stored fields besides the ping's own ID.
    ("GET", "", None, {"signal": "success"}),
    ("HEAD", "", None, {"signal": "success"}),
    ("POST", "", None, {"signal": "success"}),
    ("POST", "", b"done\n", {"signal": "success", "output": "done\n"}),
    ("GET", "/start", None, {"signal": "start"}),
    ("HEAD", "/start", None, {"signal": "start"}),
    ("GET", "/fail", None, {"signal": "failure"}),
    ("POST", "/fail", b"Traceback", {"signal": "failure", "output": "Traceback"}),
    ("GET", "/log", None, {"signal": "log"}),
    ("POST", f"/log?rid={RID}", b"half done", {"signal": "log", "run_id": RID, "output": "half done"}),
    ("GET", "/0", None, {"signal": "success", "exit_status": 0}),
    ("GET", "/1", None, {"signal": "failure", "exit_status": 1}),
    ("POST", "/255", b"x", {"signal": "failure", "exit_status": 255, "output": "x"}),
    ("GET", f"?rid={RID}", None, {"signal": "success", "run_id": RID}),
    ("GET", f"/start?rid={RID.upper()}&x=1", None, {"signal": "start", "run_id": RID}),
    # Long output is truncated; invalid UTF-8 and NUL, which Postgres cannot store, are replaced.
    ("POST", "/fail", b"x" * 50_000, {"signal": "failure", "output": "x" * OUTPUT_BYTES}),
    ("POST", "", b"a\xff\x00b", {"signal": "success", "output": "a\ufffd\ufffdb"}),
    ("POST", "", "\u00e9".encode() * 6000, {"signal": "success", "output": "\u00e9" * (OUTPUT_BYTES // 2)}),
]


async def ping_key(edge: RunningEdge, **options: Any) -> str:
    return await edge.issue_key(CredentialKind.PING_KEY, monitor="heartbeat/7", **options)


async def test_accepted_request_is_in_the_log(edge: RunningEdge) -> None:
    key = await ping_key(edge)
    for method, path, body, _ in TAKEN:
        answer = await edge.request(method, f"/ping/{key}{path}", data=body)
        assert (answer.status, answer.body) == (200, b"" if method == "HEAD" else b"OK"), (method, path)
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert (answer.headers["Cache-Control"], bool(answer.headers["X-Request-Id"])) == ("no-store", True)
    records = await edge.appended(topics.HEARTBEATS)
    pings = [msgspec.json.decode(record.value, type=Ping) for record in records]
    nothing = {"run_id": None, "exit_status": None, "output": None, "name": None, "may_create": False}
    written = [{**msgspec.to_builtins(ping), "ping_id": None} for ping in pings]
    assert written == [{**nothing, **expected, "ping_id": None} for *_, expected in TAKEN]
    assert len({ping.ping_id for ping in pings}) == len(TAKEN)
    for record in records:
        meta = msgspec.msgpack.decode(record.meta, type=MonitorMeta)
        assert (meta.kind, meta.monitor, meta.environment_id) == ("ping", 7, "env_1")
        # In the partition of the heartbeat's signals, and without the key.
        assert (record.key, key.encode() in record.value) == (b"heartbeat/7", False)


async def test_invalid_pings_are_refused(edge: RunningEdge, caplog: pytest.LogCaptureFixture) -> None:
    """All invalid keys get the same response. No response or log line contains the key."""
    caplog.set_level(logging.DEBUG)
    key = await ping_key(edge)
    unknown = make_credential(CredentialKind.PING_KEY)
    expired = await ping_key(edge, expires_ms=1)
    monitor = await edge.issue_key(CredentialKind.MONITOR_KEY, monitor="heartbeat/7")
    mistyped = key[:-1] + ("a" if key[-1] != "a" else "b")
    bad_keys = [
        unknown,
        expired,
        monitor,
        edge.key,
        mistyped,
        "x",
        "",
        "phr_png_",
        key.upper(),
        str(uuid.uuid4()),
    ]
    refused = [("GET", f"/{bad}", 404) for bad in bad_keys]
    actions = ["/256", "/-1", "/1000", "/1.5", "/\u0663", "/logs", "/start/", "/start/1", "/", "/fail/x"]
    # A trailing slash has no effect.
    refused += [("GET", f"/{key}{action}", 200 if action == "/" else 404) for action in actions]
    refused += [("GET", f"/{key}?rid={rid}", 422) for rid in ("", "1", RID[:-1], "{" + RID + "}")]
    refused += [(method, f"/{key}", 405) for method in ("PUT", "DELETE", "OPTIONS", "PATCH")]
    bodies = set()
    for method, path, status in refused:
        answer = await edge.request(method, f"/ping{path}")
        assert (method, path, answer.status) == (method, path, status)
        assert key.encode() not in answer.body and key not in str(answer.headers)
        if path in {f"/{bad}" for bad in bad_keys}:
            bodies.add(answer.body)
        if status == 405:
            assert answer.headers["Allow"] == "GET, HEAD, POST"
    assert len(bodies) == 1
    assert len(await edge.appended(topics.HEARTBEATS)) == 1
    assert not [record for record in caplog.records if "phr_png_" in record.getMessage()]


async def test_pings_take_no_tokens(start_edge: StartEdge) -> None:
    edge = await start_edge()
    key = await ping_key(edge, limit=RateLimit(0.001, 1))
    for _ in range(5):
        assert (await edge.request("GET", f"/ping/{key}")).status == 200


async def test_ping_that_cannot_be_stored_is_503(
    edge: RunningEdge, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    key = await ping_key(edge)

    async def away(*_: Any) -> None:
        raise StorageUnavailable("away")

    for of, name in ((edge.log, "append"), (edge.directory, "find")):
        with monkeypatch.context() as patched:
            patched.setattr(type(of), name, away)
            answer = await edge.request("GET", f"/ping/{key}")
        assert answer.status == 503 and int(answer.headers["Retry-After"]) >= 1
        assert json.loads(answer.body)["status"] == 503
    assert key not in caplog.text


async def test_ping_with_slow_output_is_stored(edge: RunningEdge, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ping with slow output is stored, while a slow JSON signal is refused. Both happen within the time that scans
    wait."""
    assert BODY_SECONDS == 3.0
    monkeypatch.setattr("ingest_edge.accept_pings.BODY_SECONDS", 0.05)
    key = await ping_key(edge)
    head = f"POST /ping/{key}/fail HTTP/1.1\r\nHost: edge\r\nContent-Length: 100\r\n\r\nfirst line\n"
    answer = await asyncio.wait_for(edge.raw([head.encode()]), 30)
    assert answer is not None and (answer.status, answer.body) == (200, b"OK")
    (record,) = await edge.appended(topics.HEARTBEATS)
    assert json.loads(record.value)["output"] == "first line\n"


@pytest.mark.parametrize("then", [b"zz\r\n", None], ids=["broken", "cut off"])
async def test_ping_with_incomplete_output_is_stored(
    then: bytes | None, edge: RunningEdge, caplog: pytest.LogCaptureFixture
) -> None:
    """A caller that has disconnected never resends the failure of its job."""
    key = await ping_key(edge)
    reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
    lines = [
        f"POST /ping/{key}/fail HTTP/1.1",
        "Host: edge",
        "Transfer-Encoding: chunked",
        "Expect: 100-continue",
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    # A client that waits for 100 Continue gets it immediately.
    assert (
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), BODY_SECONDS / 2)
        == b"HTTP/1.1 100 Continue\r\n\r\n"
    )
    writer.write(b"5\r\nfirst\r\n")
    await writer.drain()
    if then is None:
        writer.close()
    else:
        # Sent separately, because in one piece with the head it would not be a valid request.
        await asyncio.sleep(0.05)
        writer.write(then)
        assert (await asyncio.wait_for(reader.readline(), 30)).startswith(b"HTTP/1.1 200 ")
        writer.close()
    records = []
    async with asyncio.timeout(30):
        while not records:
            await asyncio.sleep(0.01)
            records = await edge.appended(topics.HEARTBEATS)
    assert json.loads(records[0].value)["output"] == "first"
    assert "Traceback" not in caplog.text
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
