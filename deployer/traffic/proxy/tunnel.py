"""A WebSocket, after both sides have agreed on it: bytes in both directions, whatever they mean.

Of the frames only the lengths are read, to know where one of the proxy's own may stand: extensions, sizes and close
codes pass as they are.
"""

import asyncio
import contextlib

from aiohttp.base_protocol import BaseProtocol

from deployer.traffic.proxy.caller import Caller
from deployer.traffic.proxy.endless import CLOSING_SECONDS
from deployer.traffic.proxy.frame_turns import FrameTurns
from deployer.traffic.proxy.frames import Frames, write_going_away
from deployer.traffic.proxy.upstream import Upstream
from deployer.traffic.proxy.watch import Watch


class _Pipe:
    """One direction of a tunnel. aiohttp feeds received bytes to the pipe in place of its own frame reader.

    The pipe pauses its source while the sink is full, or while bytes wait for their turn.
    """

    def __init__(
        self,
        source: BaseProtocol,
        sink: BaseProtocol,
        watch: Watch,
        ended: asyncio.Event,
        turns: FrameTurns,
        environment_id: int,
    ) -> None:
        self._source = source
        self._sink = sink
        self._watch = watch
        self._ended = ended
        self._turns = turns
        self._environment_id = environment_id
        self._full = asyncio.Event()
        self._waiting = b""
        self._last = b""
        self._is_shut = False
        self._frames = Frames()
        self.closed = asyncio.Event()
        """Set when the source has ended the WebSocket."""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        if self._waiting:
            self._waiting += data
        elif data:
            most = self._turns.frames_at_once(self._environment_id)
            followed = self._pass_on(data, most)[0] if most else 0
            if followed < len(data):
                self._waiting = data[followed:]
                self._source.pause_reading()
                if self.needs_turn:
                    self._turns.enter(self._environment_id, self)
        return False, b""

    @property
    def needs_turn(self) -> bool:
        """True if bytes wait and the sink has room."""
        return bool(self._waiting) and not self._full.is_set()

    def take_turn(self, most: int) -> int:
        """Forward up to `most` waiting frames. Return the number of forwarded frames."""
        if not self.needs_turn:
            return 0
        followed, count = self._pass_on(self._waiting, most)
        self._waiting = self._waiting[followed:]
        if not self._waiting and not self._full.is_set():
            self._source.resume_reading()
        return count

    def finish(self) -> None:
        """Forward the waiting bytes at the end of the tunnel, as far as the WebSocket may still send."""
        waiting, self._waiting = self._waiting, b""
        transport = self._sink.transport
        if waiting and not self._last and transport is not None and not transport.is_closing():
            transport.write(waiting)

    def _pass_on(self, data: bytes, most: int) -> tuple[int, int]:
        """Forward up to `most` frames of `data`. Return the number of processed bytes and frames."""
        transport = self._sink.transport
        if transport is None or transport.is_closing():
            self._ended.set()
            return len(data), 0
        followed, complete, count = self._follow(data, most)
        if followed < len(data):
            data = data[:followed]
        if self._last:
            data = self._cut_behind(data, complete)
        transport.write(data)
        if self._sink.writing_paused and not self._full.is_set():
            self._source.pause_reading()
            self._full.set()
        return followed, count

    def feed_eof(self) -> None:
        self._ended.set()

    def shut(self, last: bytes) -> None:
        """Pass on no further frame but `last`, which ends the WebSocket. Do nothing if the source has ended it already,
        or if the pipe is shut already."""
        transport = self._sink.transport
        if self._last or self._frames.has_closed or transport is None or transport.is_closing():
            return
        self._last = last
        if self._frames.is_between:
            self._is_shut = True
            transport.write(last)

    def _follow(self, data: bytes, most: int) -> tuple[int, int, int]:
        """Parse frames as `Frames.feed` does."""
        if self._frames.has_closed:
            return len(data), 0, 0
        progress = self._frames.feed(data, most)
        if self._frames.has_closed:
            self.closed.set()
        return progress

    def _cut_behind(self, data: bytes, complete: int) -> bytes:
        """What is still passed on of `data`: the rest of a frame that has begun, and then the last one."""
        if self._is_shut or not complete:
            return b"" if self._is_shut else data
        self._is_shut = True
        return data[:complete] + self._last

    async def hold_back(self) -> None:
        """Have the source wait whenever the sink does not keep up. Raises `PeerSilent`, `ConnectionError`."""
        while True:
            await self._full.wait()
            await self._watch.drain(self._sink)
            self._full.clear()
            if self._waiting:
                self._turns.enter(self._environment_id, self)
            else:
                self._source.resume_reading()


class Tunnel:
    """Carries bytes until one side ends, or takes nothing of its backlog for the watch's `silent_seconds`.

    Then the other side is closed after it has got its backlog.
    """

    def __init__(
        self, caller: Caller, upstream: Upstream, watch: Watch, turns: FrameTurns, environment_id: int
    ) -> None:
        self._caller = caller
        self._upstream = upstream
        self._ended = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        protocol = caller.request.protocol
        self._up = _Pipe(protocol, upstream, watch, self._ended, turns, environment_id)
        self._down = _Pipe(upstream, protocol, watch, self._ended, turns, environment_id)

    async def run(self) -> None:
        """Carry."""
        waits = (self._ended.wait(), self._up.hold_back(), self._down.hold_back())
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        try:
            self._upstream.give_to(self._down)
            self._caller.give_to(self._up)
            if self._upstream.transport is None:
                self._ended.set()
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if self._closing is not None:
                tasks.append(self._closing)
            for task in tasks:
                task.cancel()
            # Looked at, so that nothing is said of a side that went away in mid-write.
            await asyncio.gather(*tasks, return_exceptions=True)
            self._up.finish()
            self._down.finish()
            self._upstream.end_tunnel()
            self._caller.end_early(reset=False)

    def end(self) -> None:
        """Send both sides a close frame (1001), and close when they have answered. A second call does nothing: a drain
        and the proxy's own end may both end the same WebSocket."""
        if self._closing is not None:
            return
        self._down.shut(write_going_away(masked=False))
        self._up.shut(write_going_away(masked=True))
        self._closing = asyncio.create_task(self._close())

    async def _close(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):
                await self._up.closed.wait()
                await self._down.closed.wait()
        self._ended.set()
