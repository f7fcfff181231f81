"""Sends requests at a steady rate, however fast the responses are. One stream is always open."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from loadtests.switching.call import Call, Caller
from storage_backends.end_task import end_task

_SLOW_SECONDS = 0.3
_TAKEN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Pace:
    """The rate of the load, and how long it lasts before and after an operation."""

    per_second: float
    lead_seconds: float
    """Seconds of load before the operation."""
    tail_seconds: float
    """Seconds of load after the operation."""
    stream_seconds: float
    """Length of each stream in seconds. When a stream has ended, the next one opens."""


FULL = Pace(per_second=200.0, lead_seconds=1.0, tail_seconds=3.0, stream_seconds=5.0)


class SteadyLoad:
    """Sends all requests of one period, and keeps their results. Made by `steady_load`."""

    def __init__(self, port: int, host: str, pace: Pace) -> None:
        self.calls: list[Call] = []
        self._caller = Caller(port, host)
        self._pace = pace
        self._under_way: set[asyncio.Task[None]] = set()
        self._stopped = False

    async def send(self) -> None:
        """Send due requests until cancelled."""
        begun = time.perf_counter()
        number = 0
        while True:
            planned = begun + number / self._pace.per_second
            await asyncio.sleep(planned - time.perf_counter())
            task = asyncio.create_task(self._make(_call(number, planned), keeps=number % 7 != 0))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
            number += 1

    async def stream(self) -> None:
        """Open one stream after the other, until `stop`."""
        seconds = self._pace.stream_seconds
        while not self._stopped:
            call = Call("stream", f"/stream?seconds={seconds}", b"", seconds, time.perf_counter())
            await self._make(call, keeps=False)

    async def stop(self) -> None:
        """Wait until all requests that were sent have a response."""
        self._stopped = True
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=_TAKEN_SECONDS)
        self._caller.close()

    async def _make(self, call: Call, *, keeps: bool) -> None:
        self.calls.append(call)
        await self._caller.make(call, time.perf_counter, keeps=keeps)
        if call.failure is not None and call.kind == "stream":
            # If a stream fails at once, wait before the next one.
            await asyncio.sleep(1 / self._pace.per_second)


@asynccontextmanager
async def steady_load(port: int, host: str, pace: Pace) -> AsyncIterator[SteadyLoad]:
    """Run load until the block ends. After that, every request has a response or has failed."""
    load = SteadyLoad(port, host, pace)
    sending = asyncio.create_task(load.send())
    streaming = asyncio.create_task(load.stream())
    try:
        await asyncio.sleep(pace.lead_seconds)
        yield load
        await asyncio.sleep(pace.tail_seconds)
    finally:
        await end_task(sending)
        await load.stop()
        await streaming


def _call(number: int, planned: float) -> Call:
    """Return the request with this number. Of twenty requests, eleven are GETs, seven are POSTs, one is a slow GET
    and one a slow POST."""
    place = number % 20
    seconds = _SLOW_SECONDS if place in (9, 19) else 0.0
    path = f"/slow?seconds={seconds}" if seconds else "/"
    # Alternate the kinds of requests, so that an operation meets both.
    if place in (1, 4, 7, 9, 11, 13, 15, 17):
        return Call("POST", path, f"{number:06d} ".encode() * 100, seconds, planned)
    return Call("GET", path, b"", seconds, planned)
