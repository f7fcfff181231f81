"""Attack an edge with held connections: announced bodies, trickling bytes, endless heads.

    python -m tests.hostile.held_connections

The edge is a separate process with the product's default limits, on a real log. While an attack runs, another tenant
sends batches. Each attack prints the responses and the latency of that tenant, and the edge's memory before, during and
after.
"""

import asyncio
import contextlib
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import psutil

from tests.ingest_edge.conftest import open_edge

_MB = 2**20
_BATCH = b'{"batch_id":"b-1","events":[{"type":"log","name":"of another tenant"}]}'
ORIGIN = "https://shop.example"


@dataclass(frozen=True, slots=True)
class Target:
    """A running edge: an attacker's key and site, and the key of another account."""

    port: int
    pid: int
    key: str
    tracker_id: str
    other_key: str


@dataclass(slots=True)
class Outcome:
    """The effects of an attack. Memory in bytes, latency in seconds."""

    name: str
    answers: Counter[int | str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    before: int = 0
    peak: int = 0
    after: int = 0

    def latency(self, share: float) -> float:
        """Return the latency quantile of this share."""
        return sorted(self.seconds)[int(share * (len(self.seconds) - 1))] if self.seconds else 0.0


def _serve(sender: "multiprocessing.connection.Connection") -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with open_edge(Path(folder)) as edge:
                other = await edge.issue_key()
                sender.send((edge.port, edge.key, await edge.open_site(ORIGIN), other))
                await asyncio.to_thread(sender.poll, None)

    asyncio.run(run())


@contextlib.contextmanager
def serving() -> Iterator[Target]:
    """Run an edge in a separate process."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there,))
    process.start()
    try:
        port, key, tracker_id, other = here.recv()
        assert process.pid is not None
        yield Target(port, process.pid, key, tracker_id, other)
        here.send(None)
        process.join(30)
    finally:
        process.kill()
        process.join()


def _head(path: str, *lines: str) -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: edge", *lines, "", ""]).encode()


def announced_page_views(target: Target) -> list[bytes]:
    """Announce 64 MiB of anonymous page views, and send a byte of each."""
    lines = (f"Origin: {ORIGIN}", "Content-Type: text/plain", "Content-Length: 262144")
    return [_head(f"/api/v1/collect/{target.tracker_id}", *lines) + b"{"] * 257


def announced_batches(target: Target) -> list[bytes]:
    """Announce 80 MiB of batches with one key, and send a byte of each."""
    lines = (
        f"Authorization: Bearer {target.key}",
        "Content-Type: application/json",
        f"Content-Length: {5 * _MB}",
    )
    return [_head("/api/v1/ingest", *lines) + b"{"] * 16


def sent_batches(target: Target) -> list[bytes]:
    """Send 80 MiB of batches with one key, except the last byte of each."""
    return [one + b" " * (5 * _MB - 2) for one in announced_batches(target)]


def endless_heads(target: Target) -> list[bytes]:
    """Send heads of 120 headers of 16 kB that never end."""
    header = f"X-Padding: {'x' * 16_000}\r\n".encode()
    return [b"POST /api/v1/ingest HTTP/1.1\r\nHost: edge\r\n" + header * 120] * 150


ATTACKS = {
    "257 announced page views": announced_page_views,
    "16 announced batches of one key": announced_batches,
    "16 batches of one key without their last byte": sent_batches,
    "150 heads without end": endless_heads,
}


async def attack(target: Target, name: str, seconds: float) -> Outcome:
    """Attack for the given time, while another tenant sends ten batches a second; then disconnect and measure the
    memory."""
    process = psutil.Process(target.pid)
    outcome = Outcome(name)
    outcome.before = outcome.peak = process.memory_info().rss
    async with aiohttp.ClientSession() as http, _held(target.port, ATTACKS[name](target)):
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            await _send(http, target, outcome)
            outcome.peak = max(outcome.peak, process.memory_info().rss)
            await asyncio.sleep(0.1)
    # Take the last sample after the edge has noticed all disconnects.
    async with asyncio.timeout(60):
        while len(process.net_connections("tcp")) > 1:
            await asyncio.sleep(0.05)
    outcome.after = process.memory_info().rss
    return outcome


async def _send(http: aiohttp.ClientSession, target: Target, outcome: Outcome) -> None:
    headers = {"Authorization": f"Bearer {target.other_key}", "Content-Type": "application/json"}
    begun = time.monotonic()
    url = f"http://127.0.0.1:{target.port}/api/v1/ingest"
    try:
        async with http.post(url, data=_BATCH, headers=headers) as answer:
            await answer.read()
            outcome.answers[answer.status] += 1
    except aiohttp.ClientError as error:
        outcome.answers[type(error).__name__] += 1
    outcome.seconds.append(time.monotonic() - begun)


@contextlib.asynccontextmanager
async def _held(port: int, openings: list[bytes]) -> AsyncIterator[None]:
    """Hold connections that send an opening, and then a byte a second. Reopen closed ones."""
    holding = [asyncio.create_task(_hold(port, opening)) for opening in openings]
    try:
        yield
    finally:
        for task in holding:
            task.cancel()
        await asyncio.gather(*holding, return_exceptions=True)


async def _hold(port: int, opening: bytes) -> None:
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(opening)
                await writer.drain()
                while not reader.at_eof():
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(1):
                            await reader.read(65_536)
                    writer.write(b"x")
                    await writer.drain()
            finally:
                writer.transport.abort()
        await asyncio.sleep(0.2)


def main(seconds: float = 15.0) -> None:
    print("attack | other tenant | p50 | p99 | longest | RSS before | peak | after")
    for name in ATTACKS:
        with serving() as target:
            found = asyncio.run(attack(target, name, seconds))
        latency = [f"{found.latency(share) * 1000:.0f} ms" for share in (0.5, 0.99, 1.0)]
        memory = [f"{size / _MB:.0f} MiB" for size in (found.before, found.peak, found.after)]
        print(" | ".join([name, str(dict(found.answers)), *latency, *memory]), flush=True)


if __name__ == "__main__":
    main(*(float(text) for text in sys.argv[1:]))
