"""Memory for bodies: counted bytes, shares of senders, and the release of slow bodies."""

import asyncio
import contextlib
import gzip
import threading
from contextlib import AsyncExitStack
from typing import Any

import pytest

from pipeline_contracts.client_address import network_of
from pipeline_contracts.credentials import CredentialKind

BATCH = b'{"batch_id":"b-1","events":[{"type":"log"}]}'
EVENTS = b'{"events":[{"id":"0190b5a4-0000-7000-8000-000000000001","type":"pageview","path":"/"}]}'
ORIGIN = "https://shop.example"


def post_head(path: str, *lines: str) -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: edge", *lines, "", ""]).encode()


def collect_head(tracker_id: str, length: int, *lines: str) -> bytes:
    return post_head(
        f"/api/v1/collect/{tracker_id}",
        f"Origin: {ORIGIN}",
        "Content-Type: text/plain",
        f"Content-Length: {length}",
        *lines,
    )


async def send(edge: Any, stack: AsyncExitStack, *parts: bytes) -> asyncio.StreamReader:
    """Send bytes on a new connection that stays open."""
    reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
    stack.callback(writer.close)
    for part in parts:
        writer.write(part)
    await writer.drain()
    return reader


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.002)


async def test_declared_lengths_reserve_no_memory(edge):
    """257 anonymous bodies of 256 KiB and 16 of 5 MiB with a key are declared; one byte of each arrives."""
    tracker_id = await edge.open_site(ORIGIN)
    other = {"Authorization": f"Bearer {await edge.issue_key()}"}
    async with AsyncExitStack() as stack:
        for _ in range(257):
            await send(edge, stack, collect_head(tracker_id, 256 * 1024), b"{")
        for _ in range(16):
            await send(edge, stack, edge.head(f"Content-Length: {5 * 2**20}"), b"{")
        await until(lambda: edge.budgets.collect.bytes == 257 and edge.budgets.telemetry.bytes == 16)
        assert (await edge.post(BATCH, other)).status == 202
        assert (await edge.post(BATCH)).status == 202
        assert (await edge.collect(tracker_id, EVENTS)).status == 202
    await until(lambda: edge.budgets.bytes == 0)


async def test_one_account_cannot_use_up_the_memory_of_the_others(start_edge):
    edge = await start_edge(in_flight_bytes=20_000, account_in_flight_bytes=10_000)
    other = {"Authorization": f"Bearer {await edge.issue_key()}"}
    async with AsyncExitStack() as stack:
        for _ in range(2):
            await send(edge, stack, edge.head("Content-Length: 5001"), b" " * 4990)
        await until(lambda: edge.budgets.telemetry.bytes == 9980)
        refused = await edge.post(BATCH)
        assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
        assert "of this sender" in refused.document()["detail"]
        otlp = {"Authorization": f"Bearer {edge.key}", "Content-Type": "application/json"}
        logs = b'{"resourceLogs":[]}' + b" " * 30
        answer = await edge.request("POST", "/api/v1/otlp/v1/logs", data=logs, headers=otlp)
        assert (answer.status, answer.document()["code"]) == (503, 14)
        assert (await edge.post(BATCH, other)).status == 202
        heartbeat = await edge.issue_key(CredentialKind.MONITOR_KEY, monitor="heartbeat/1")
        signal = b'{"run_id":"0190b5a4-0000-7000-8000-000000000001","signal":"success"}'
        headers = {"Authorization": f"Bearer {heartbeat}", "Content-Type": "application/json"}
        assert (
            await edge.request("POST", "/api/v1/heartbeats/1", data=signal, headers=headers)
        ).status == 202
    await until(lambda: edge.budgets.bytes == 0)
    assert (await edge.post(BATCH)).status == 202


async def test_one_address_cannot_use_up_the_memory_of_page_views(start_edge):
    """Collect uses `X-Forwarded-For` only from a trusted proxy."""
    limits = {"collect_in_flight_bytes": 20_000, "address_in_flight_bytes": 5_000}
    trusting = await start_edge(trusted_proxies="127.0.0.1", **limits)
    for edge, forwarded, status in (
        (trusting, "198.51.100.8", 202),
        (trusting, "198.51.100.7", 503),
        (trusting, "2001:db8::1, 198.51.100.7", 503),
        (await start_edge(**limits), "198.51.100.8", 503),
    ):
        tracker_id = await edge.open_site(ORIGIN)
        async with AsyncExitStack() as stack:
            flooding = collect_head(tracker_id, 6000, "X-Forwarded-For: 198.51.100.7")
            await send(edge, stack, flooding, b" " * 4990)
            await until(lambda edge=edge: edge.budgets.collect.bytes == 4990)
            answer = await edge.collect(tracker_id, EVENTS, X_Forwarded_For=forwarded)
            assert answer.status == status, forwarded
            assert (await edge.post(BATCH)).status == 202
        await until(lambda edge=edge: edge.budgets.bytes == 0)


def test_address_counts_as_its_network():
    for address, network in (
        ("198.51.100.7", "198.51.100.7"),
        ("::ffff:198.51.100.7", "198.51.100.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("unknown", "unknown"),
    ):
        assert network_of(address) == network


@pytest.mark.parametrize("kind", ["ingest", "otlp", "collect"])
async def test_slow_body_is_refused_and_its_memory_released(kind, start_edge):
    edge = await start_edge(body_grace=0.05, body_rate=100_000, body_timeout=600.0)
    tracker_id = await edge.open_site(ORIGIN)
    keyed = (f"Authorization: Bearer {edge.key}", "Content-Type: application/json", "Content-Length: 1000000")
    head, status = {
        "ingest": (post_head("/api/v1/ingest", *keyed), b"408"),
        # Senders of OTLP drop the data after a 408.
        "otlp": (post_head("/api/v1/otlp/v1/traces", *keyed), b"503"),
        "collect": (collect_head(tracker_id, 200_000), b"408"),
    }[kind]
    async with AsyncExitStack() as stack:
        reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
        stack.callback(writer.close)
        # A fast beginning does not compensate for a slow rest.
        writer.write(head + b" " * 50_000)

        async def trickle() -> None:
            with contextlib.suppress(ConnectionError):
                while True:
                    writer.write(b" ")
                    await writer.drain()
                    await asyncio.sleep(0.005)

        trickling = asyncio.create_task(trickle())
        stack.callback(trickling.cancel)
        async with asyncio.timeout(60):
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.split(b" ")[1] == status
            assert (b"Retry-After: 1" in answer) == (kind == "otlp")
            assert edge.budgets.bytes == 0
    assert edge.stored_records() == 0


async def test_without_a_lowest_rate_a_body_may_take_many_windows(start_edge):
    edge = await start_edge(body_grace=0.002, body_rate=0, body_timeout=600.0)
    body = BATCH.ljust(100)
    answer = await edge.raw([edge.head("Content-Length: 100"), *(body[at : at + 1] for at in range(100))])
    assert answer.status == 202
    (record,) = await edge.appended()
    assert record.value == body


async def test_a_decompressed_body_counts_until_the_log_has_it(edge):
    plain = BATCH.ljust(500_000)
    sent = gzip.compress(plain)
    go_on, has_begun = threading.Event(), threading.Event()

    def hold_log(_connection: Any) -> None:
        has_begun.set()
        go_on.wait(60)

    holding = asyncio.create_task(edge.log.call(hold_log))
    await until(has_begun.is_set)
    try:
        async with AsyncExitStack() as stack:
            head = edge.head(f"Content-Length: {len(sent)}", "Content-Encoding: gzip")
            for _ in range(2):
                await send(edge, stack, head, sent)
            # The compressed body is no longer in memory.
            await until(lambda: edge.budgets.telemetry.bytes == 2 * len(plain))
        # The callers have disconnected; their bodies are being appended to the log.
        assert edge.budgets.telemetry.bytes == 2 * len(plain)
    finally:
        go_on.set()
    await holding
    await until(lambda: edge.budgets.bytes == 0)


async def test_broken_body_is_refused_and_its_memory_released(edge):
    chunked = edge.head("Transfer-Encoding: chunked")
    for parts, status in (
        # The invalid chunk arrives while the body is being read.
        ((chunked, b"5\r\nhello\r\n", b"zz\r\n"), 400),
        ((edge.head("Content-Length: 6", "Content-Encoding: gzip"), b"nozips"), 422),
        ((edge.head("Content-Length: 6"), b"nojson"), 422),
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
        for number, part in enumerate(parts):
            writer.write(part)
            await writer.drain()
            if number == 1 and len(parts) == 3:
                await until(lambda: edge.budgets.telemetry.bytes == 5)
        assert (await reader.readuntil(b"\r\n")).split(b" ")[1] == b"%d" % status
        writer.close()
        assert edge.budgets.bytes == 0
    assert edge.stored_records() == 0
