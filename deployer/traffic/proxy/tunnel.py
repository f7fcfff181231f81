"""Forwards the bytes of a WebSocket in both directions after the handshake.

The tunnel reads only the lengths of frames, to insert a close frame between frames: extensions, sizes and close codes
pass unchanged.
"""

import asyncio
import contextlib

from aiohttp.base_protocol import BaseProtocol

from deployer.traffic.proxy.caller import Caller
from deployer.traffic.proxy.frame_scheduler import FrameScheduler
from deployer.traffic.proxy.frames import Frames, write_going_away
from deployer.traffic.proxy.open_streams import CLOSING_SECONDS
from deployer.traffic.proxy.upstream import Upstream
from deployer.traffic.proxy.watch import Watch


class _Pipe:
    """Forwards one direction of a tunnel. aiohttp passes received bytes to the pipe instead of its own frame reader.

    The pipe pauses its source while the sink is full, or while bytes are pending.
    """

    def __init__(
        self,
        source: BaseProtocol,
        sink: BaseProtocol,
        watch: Watch,
        ended: asyncio.Event,
        scheduler: FrameScheduler,
        environment_id: int,
    ) -> None:
        self._source = source
        self._sink = sink
        self._watch = watch
        self._ended = ended
        self._scheduler = scheduler
        self._environment_id = environment_id
        self._full = asyncio.Event()
        self._pending = b""
        self._close_frame = b""
        self._is_closed = False
        self._frames = Frames()
        self.closed = asyncio.Event()
        """Set when the source has sent a close frame."""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        if self._pending:
            self._pending += data
        elif data:
            limit = self._scheduler.admit_read(self._environment_id)
            parsed = self._pass_on(data, limit)[0] if limit else 0
            if parsed < len(data):
                self._pending = data[parsed:]
                self._source.pause_reading()
                if self.is_ready:
                    self._scheduler.enter(self._environment_id, self)
        return False, b""

    @property
    def is_ready(self) -> bool:
        """True if bytes are pending and the sink is not full."""
        return bool(self._pending) and not self._full.is_set()

    def forward_waiting(self, limit: int) -> int:
        """Forward up to `limit` pending frames. Return the number of forwarded frames."""
        if not self.is_ready:
            return 0
        parsed, count = self._pass_on(self._pending, limit)
        self._pending = self._pending[parsed:]
        if not self._pending and not self._full.is_set():
            self._source.resume_reading()
        return count

    def finish(self) -> None:
        """At the end of the tunnel, forward the waiting bytes that the WebSocket may still send."""
        pending, self._pending = self._pending, b""
        transport = self._sink.transport
        if pending and not self._close_frame and transport is not None and not transport.is_closing():
            transport.write(pending)

    def _pass_on(self, data: bytes, limit: int) -> tuple[int, int]:
        """Forward up to `limit` frames of `data`. Return the number of processed bytes and frames."""
        transport = self._sink.transport
        if transport is None or transport.is_closing():
            self._ended.set()
            return len(data), 0
        parsed, complete, count = self._parse(data, limit)
        if parsed < len(data):
            data = data[:parsed]
        if self._close_frame:
            data = self._end_after(data, complete)
        transport.write(data)
        if self._sink.writing_paused and not self._full.is_set():
            self._source.pause_reading()
            self._full.set()
        return parsed, count

    def feed_eof(self) -> None:
        self._ended.set()

    def close_with(self, last: bytes) -> None:
        """Forward no further frame except `last`, which ends the WebSocket. Do nothing if the source has sent a close
        frame already, or if the pipe is shut already."""
        transport = self._sink.transport
        if self._close_frame or self._frames.has_closed or transport is None or transport.is_closing():
            return
        self._close_frame = last
        if self._frames.is_between:
            self._is_closed = True
            transport.write(last)

    def _parse(self, data: bytes, limit: int) -> tuple[int, int, int]:
        """Parse frames as `Frames.feed` does."""
        if self._frames.has_closed:
            return len(data), 0, 0
        progress = self._frames.feed(data, limit)
        if self._frames.has_closed:
            self.closed.set()
        return progress

    def _end_after(self, data: bytes, complete: int) -> bytes:
        """Return the part of `data` to forward: the rest of a begun frame, followed by the close frame."""
        if self._is_closed or not complete:
            return b"" if self._is_closed else data
        self._is_closed = True
        return data[:complete] + self._close_frame

    async def apply_back_pressure(self) -> None:
        """Pause the source whenever the sink is full. Raises `PeerSilent` and `ConnectionError`."""
        while True:
            await self._full.wait()
            await self._watch.drain(self._sink)
            self._full.clear()
            if self._pending:
                self._scheduler.enter(self._environment_id, self)
            else:
                self._source.resume_reading()


class Tunnel:
    """Forwards bytes until one side ends, or reads none of its waiting bytes for the watch's `silent_seconds`.

    Then sends the bytes that wait for the other side, and closes that side.
    """

    def __init__(
        self, caller: Caller, upstream: Upstream, watch: Watch, scheduler: FrameScheduler, environment_id: int
    ) -> None:
        self._caller = caller
        self._upstream = upstream
        self._ended = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        protocol = caller.request.protocol
        self._up = _Pipe(protocol, upstream, watch, self._ended, scheduler, environment_id)
        self._down = _Pipe(upstream, protocol, watch, self._ended, scheduler, environment_id)

    async def run(self) -> None:
        """Forward bytes until the tunnel ends."""
        waits = (self._ended.wait(), self._up.apply_back_pressure(), self._down.apply_back_pressure())
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        try:
            self._upstream.feed_to(self._down)
            self._caller.feed_to(self._up)
            if self._upstream.transport is None:
                self._ended.set()
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if self._closing is not None:
                tasks.append(self._closing)
            for task in tasks:
                task.cancel()
            # Retrieve the exceptions, so that asyncio does not log those of sides that closed during a write.
            await asyncio.gather(*tasks, return_exceptions=True)
            self._up.finish()
            self._down.finish()
            self._upstream.end_tunnel()
            self._caller.end_early(reset=False)

    def end(self) -> None:
        """Send both sides a close frame (1001), and close after their replies. A second call has no effect: a drain and
        the proxy's own end may both end the same WebSocket."""
        if self._closing is not None:
            return
        self._down.close_with(write_going_away(masked=False))
        self._up.close_with(write_going_away(masked=True))
        self._closing = asyncio.create_task(self._close())

    async def _close(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):
                await self._up.closed.wait()
                await self._down.closed.wait()
        self._ended.set()
