"""Whether a process answers."""

import asyncio
from contextlib import suppress

from deployer.traffic.interface import Target

_PROBE_SECONDS = 5.0
# A process that starts fast need not wait for the second look.
_PAUSES = (0.05, 0.05, 0.1, 0.1, 0.2, 0.3, 0.5)
_LAST_PAUSE = 1.0


async def wait_healthy(target: Target, path: str | None, host: str) -> None:
    """Return once it answers a GET of `path` with 200 to 399; without a path, once it takes connections. Looks about
    each second, and gives each look five."""
    for pause in _PAUSES:
        if await _answers(target, path, host):
            return
        await asyncio.sleep(pause)
    # Nothing tells: it is somebody else's process.
    while not await _answers(target, path, host):  # noqa: ASYNC110
        await asyncio.sleep(_LAST_PAUSE)


async def _answers(target: Target, path: str | None, host: str) -> bool:
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            return await _probe(target, path, host)
    except (OSError, TimeoutError, ValueError):
        return False


async def _probe(target: Target, path: str | None, host: str) -> bool:
    reader, writer = await asyncio.open_connection(target.host, target.port)
    try:
        if path is None:
            return True
        head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: pharos-health\r\nAccept: */*\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode("ascii"))
        await writer.drain()
        version, status, *_ = (await reader.readline()).decode("latin-1").split(" ", 2)
        return version.startswith("HTTP/1.") and 200 <= int(status) < 400
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
