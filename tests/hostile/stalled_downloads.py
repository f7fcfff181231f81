"""Attack a proxy with downloads that the caller never reads.

    python -m tests.hostile.stalled_downloads [NUMBER]

The proxy is a separate process. The program prints its memory before, during and after the attack.
"""

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

import psutil

from tests.deployer.traffic.applications import raw_server
from tests.hostile.proxy_process import ProxyProcess, running_proxy
from tests.support.engines import free_port

_MB = 2**20
_PIECE = bytes(65536)
_SETTLE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Memory:
    """The proxy's resident memory in bytes."""

    before: int
    stalled: int
    after: int


class Flood:
    """An application that responds with endless bytes, as fast as the proxy reads."""

    def __init__(self) -> None:
        self.begun = 0
        self.open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.begun += 1
        self.open += 1
        try:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
            while not writer.is_closing():
                writer.write(_PIECE)
                await writer.drain()
        finally:
            self.open -= 1


@contextlib.asynccontextmanager
async def stalled(port: int, count: int) -> AsyncIterator[None]:
    """Open `count` connections that request a download and read nothing."""
    callers = []
    try:
        for _ in range(count):
            caller = socket.create_connection(("127.0.0.1", port))
            caller.sendall(b"GET / HTTP/1.1\r\nHost: flood.localhost\r\n\r\n")
            callers.append(caller)
            await asyncio.sleep(0)
        yield
    finally:
        for caller in callers:
            caller.close()


async def attack(proxy: ProxyProcess, flood: Flood, count: int, settle_seconds: float) -> Memory:
    """Warm the proxy with a tenth of the callers, attack with all, let go, and give the proxy time to free memory."""
    process = psutil.Process(proxy.pid)
    await _hold(proxy, flood, max(1, count // 10))
    before = await _settled(process, settle_seconds)
    async with stalled(proxy.port, count):
        async with asyncio.timeout(_SETTLE_SECONDS):
            while flood.open < count:
                await asyncio.sleep(0.05)
        during = await _settled(process, settle_seconds)
    await _ended(flood)
    return Memory(before, during, await _settled(process, settle_seconds))


async def _hold(proxy: ProxyProcess, flood: Flood, count: int) -> None:
    async with stalled(proxy.port, count):
        async with asyncio.timeout(_SETTLE_SECONDS):
            while flood.open < count:
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
    await _ended(flood)


async def _ended(flood: Flood) -> None:
    async with asyncio.timeout(_SETTLE_SECONDS):
        while flood.open:
            await asyncio.sleep(0.05)


async def _settled(process: psutil.Process, seconds: float) -> int:
    """Return the memory after it has changed by less than a mebibyte for the given time."""
    last, since, loop = process.memory_info().rss, 0.0, asyncio.get_running_loop()
    since = loop.time()
    async with asyncio.timeout(_SETTLE_SECONDS):
        while loop.time() - since < seconds:
            await asyncio.sleep(0.2)
            now = process.memory_info().rss
            if abs(now - last) > _MB:
                last, since = now, loop.time()
    return process.memory_info().rss


async def run(count: int, settle_seconds: float = 5.0) -> Memory:
    """Attack a new proxy with `count` stalled downloads."""
    flood, port = Flood(), free_port()
    async with raw_server(flood.serve, port):
        with running_proxy({"flood": port}) as proxy:
            return await attack(proxy, flood, count, settle_seconds)


def main(count: int = 600) -> None:
    memory = asyncio.run(run(count))
    each = (memory.stalled - memory.before) / count / 1024
    print(
        f"{count} stalled downloads: {memory.before / _MB:.0f} MiB before, {memory.stalled / _MB:.0f} MiB stalled "
        f"({each:.0f} KiB each), {memory.after / _MB:.0f} MiB after"
    )


if __name__ == "__main__":
    main(*(int(text) for text in sys.argv[1:]))
