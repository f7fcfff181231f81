"""A WebSocket, after both sides have agreed on it: bytes in both directions, whatever they mean.

Nothing is read out of the frames, so extensions, sizes and close codes pass as they are.
"""

import asyncio

from aiohttp.base_protocol import BaseProtocol

from deployer.traffic.proxy.caller import Caller
from deployer.traffic.proxy.upstream import Upstream
from deployer.traffic.proxy.watch import Watch


class _Pipe:
    """One direction. aiohttp hands it what has come, as it would a reader of frames."""

    def __init__(self, source: BaseProtocol, sink: BaseProtocol, watch: Watch, ended: asyncio.Event) -> None:
        self._source = source
        self._sink = sink
        self._watch = watch
        self._ended = ended
        self._full = asyncio.Event()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        transport = self._sink.transport
        if transport is None or transport.is_closing():
            self._ended.set()
        elif data:
            transport.write(data)
            if self._sink.writing_paused and not self._full.is_set():
                self._source.pause_reading()
                self._full.set()
        return False, b""

    def feed_eof(self) -> None:
        self._ended.set()

    async def hold_back(self) -> None:
        """Have the source wait whenever the sink does not keep up. Raises `PeerSilent`, `ConnectionError`."""
        while True:
            await self._full.wait()
            await self._watch.drain(self._sink)
            self._full.clear()
            self._source.resume_reading()


async def run_tunnel(caller: Caller, upstream: Upstream, watch: Watch) -> None:
    """Carry bytes until one side ends, or takes nothing of its backlog for the watch's `silent_seconds`.

    Then the other side is closed after it has got its backlog.
    """
    ended = asyncio.Event()
    protocol = caller.request.protocol
    up = _Pipe(protocol, upstream, watch, ended)
    down = _Pipe(upstream, protocol, watch, ended)
    tasks = [asyncio.ensure_future(wait) for wait in (ended.wait(), up.hold_back(), down.hold_back())]
    try:
        upstream.give_to(down)
        caller.give_to(up)
        if upstream.transport is None:
            ended.set()
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        # Looked at, so that nothing is said of a side that went away in mid-write.
        await asyncio.gather(*tasks, return_exceptions=True)
        upstream.end_tunnel()
        caller.end_early(reset=False)
