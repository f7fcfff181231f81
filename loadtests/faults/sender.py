"""Sends batches at a steady rate. Repeats each batch until it gets a 202, as an SDK with a buffer does."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import aiohttp

from loadtests.bench.payloads import batch_id, make_bodies, number_body

EVENTS = 100
_BODIES = 64
_ATTEMPT_SECONDS = 20.0


@dataclass(slots=True)
class Phase:
    """The events that were acknowledged during one fault."""

    name: str
    begun: float
    acknowledged: dict[str, int] = field(default_factory=dict)
    other_answers: int = 0
    lost_connections: int = 0
    longest_pause: float = 0.0
    """The longest time between two 202 responses in seconds."""


class Sender:
    """Sends batches. Call `run` in parallel with the faults; call `enter` when a new phase begins."""

    def __init__(self, url: str, key: str, batches: int, per_second: float, connections: int = 32) -> None:
        self._url = f"{url}/v1/ingest"
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._batches = batches
        self._per_second = per_second
        self._connections = connections
        self._bodies = make_bodies(_BODIES, EVENTS)
        self._last = time.monotonic()
        self.phases: list[Phase] = []
        self.enter("warming up")

    @property
    def phase(self) -> Phase:
        """Return the current phase."""
        return self.phases[-1]

    @property
    def acknowledged(self) -> dict[str, int]:
        """Return the number of events by batch, from all phases."""
        return {batch: events for phase in self.phases for batch, events in phase.acknowledged.items()}

    def enter(self, name: str) -> Phase:
        """End the current phase and start another one."""
        self.phases.append(Phase(name, time.monotonic()))
        return self.phases[-1]

    @contextmanager
    def watching(self) -> Iterator[None]:
        """At the end of the context, also count a pause that has not ended yet."""
        yield
        self._note_pause(time.monotonic())

    def _note_pause(self, now: float) -> None:
        self.phase.longest_pause = max(self.phase.longest_pause, now - max(self._last, self.phase.begun))

    async def run(self) -> None:
        """Send all batches. Return when each batch has got a 202."""
        numbers = iter(range(self._batches))
        begun = time.monotonic()
        timeout = aiohttp.ClientTimeout(total=_ATTEMPT_SECONDS)
        connector = aiohttp.TCPConnector(limit=self._connections)
        async with aiohttp.ClientSession(
            headers=self._headers, timeout=timeout, connector=connector
        ) as session:

            async def work() -> None:
                for number in numbers:
                    wait = begun + number / self._per_second - time.monotonic()
                    if wait > 0:
                        await asyncio.sleep(wait)
                    await self._send(session, number)

            await asyncio.gather(*(work() for _ in range(self._connections)))

    async def _send(self, session: aiohttp.ClientSession, number: int) -> None:
        body = number_body(self._bodies[number % _BODIES], number)
        pause = 0.1
        while True:
            try:
                async with session.post(self._url, data=body) as answer:
                    await answer.read()
                    status = answer.status
            except (aiohttp.ClientError, TimeoutError):
                self.phase.lost_connections += 1
            else:
                if status == 202:
                    now = time.monotonic()
                    self._note_pause(now)
                    self._last = now
                    self.phase.acknowledged[batch_id(number)] = EVENTS
                    return
                if status not in (429, 502, 503, 504):
                    raise AssertionError(f"batch {number} was answered with {status}")
                self.phase.other_answers += 1
            await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0)
