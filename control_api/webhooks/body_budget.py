"""Memory for the bodies of deliveries, which have proved nothing until they are complete (decisions/0034).

Bytes count once they have arrived. Where memory is short the body that is being read for longest ends: hosts send a
body at once, so that whoever holds on gives way to them.
"""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from control_api.webhooks.senders import Senders
from pipeline_contracts.errors import Unavailable

MOST_BYTES = 5 * 2**20
"""Of one body."""
_RETRY_SECONDS = 5


class BodyReading:
    """The bytes of one body that is being read, or was read and is in flight."""

    __slots__ = ("sender", "bytes", "was_ended", "_budget", "_timeout")

    def __init__(self, budget: "BodyBudget", sender: str) -> None:
        self.sender = sender
        self.bytes = 0
        self.was_ended = False
        """Whether it gave way to another body."""
        self._budget = budget
        self._timeout: asyncio.Timeout | None = None

    @contextmanager
    def giving_way(self, timeout: asyncio.Timeout) -> Iterator[None]:
        """Let it end by this timeout while it is being read, if memory is short."""
        self._timeout = timeout
        try:
            yield
        finally:
            self._timeout = None

    @property
    def can_end(self) -> bool:
        return self._timeout is not None and not self.was_ended

    def hold(self, count: int) -> None:
        """Count bytes that have arrived. Raises `Unavailable` where there is no memory for them."""
        self._budget.add(self, count)

    def end(self) -> None:
        """Stop reading it; its bytes are free at once."""
        assert self._timeout is not None
        self.was_ended = True
        # One that is too late already ends by itself, and cannot be told another time.
        if not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time())
        self._budget.release(self)


class BodyBudget:
    """A limit for all bodies together, and a share of it for each sender."""

    def __init__(self, limit: int, share: int) -> None:
        self.bytes = 0
        self._limit = limit
        self._share = share
        # The oldest of each sender first.
        self._readings: dict[str, OrderedDict[BodyReading, None]] = defaultdict(OrderedDict)
        self._held: dict[str, int] = defaultdict(int)

    @contextmanager
    def reading(self, sender: str) -> Iterator[BodyReading]:
        """A body of this sender; at the end its bytes are free."""
        reading = BodyReading(self, sender)
        self._readings[sender][reading] = None
        try:
            yield reading
        finally:
            self.release(reading)

    def add(self, reading: BodyReading, count: int) -> None:
        """Count bytes; older bodies end for it. Raises `Unavailable`."""
        while not reading.was_ended and self._held[reading.sender] + count > self._share:
            self._make_room(reading, reading.sender)
        while not reading.was_ended and self.bytes + count > self._limit:
            self._make_room(reading, self._largest())
        if reading.was_ended:
            raise gave_way()
        reading.bytes += count
        self._held[reading.sender] += count
        self.bytes += count

    def _make_room(self, newest: BodyReading, sender: str) -> None:
        """End the oldest body of this sender; the one that asks for room is no exception, unless it is the last."""
        for reading in self._readings.get(sender, ()):
            if reading is not newest and reading.can_end and reading.bytes:
                reading.end()
                return
        raise Unavailable("Too many deliveries arrive at once. Deliver it again.", retry_after=_RETRY_SECONDS)

    def _largest(self) -> str:
        """The sender that holds most among those who are still sending."""
        sending = {
            sender: self._held[sender]
            for sender, readings in self._readings.items()
            if any(reading.can_end and reading.bytes for reading in readings)
        }
        return max(sending, key=sending.__getitem__, default="")

    def release(self, reading: BodyReading) -> None:
        """Free the bytes of a body. A sender that holds nothing is forgotten."""
        sender = reading.sender
        self.bytes -= reading.bytes
        self._held[sender] -= reading.bytes
        reading.bytes = 0
        readings = self._readings.get(sender)
        if readings is not None:
            readings.pop(reading, None)
        if not readings:
            self._readings.pop(sender, None)
            self._held.pop(sender, None)


def gave_way() -> Unavailable:
    """The answer to a body that was being read when others needed its memory."""
    return Unavailable(
        "The body was not complete when others needed its memory. Deliver it again.",
        retry_after=_RETRY_SECONDS,
    )


class WebhookBodies:
    """Two budgets, so that senders who have proved nothing leave alone the memory of those who have.

    Of the one each network has a share, of the other each webhook: whoever has a secret fills no more than that.
    """

    def __init__(
        self,
        *,
        unproven: tuple[int, int] = (24 * 2**20, MOST_BYTES),
        proven: tuple[int, int] = (40 * 2**20, 2 * MOST_BYTES),
    ) -> None:
        self._unproven = BodyBudget(*unproven)
        self._proven = BodyBudget(*proven)
        self.senders = Senders()

    @property
    def bytes(self) -> int:
        """Bytes of all bodies in flight."""
        return self._unproven.bytes + self._proven.bytes

    @contextmanager
    def reading(self, hook: str, network: str) -> Iterator[BodyReading]:
        """A body for this webhook from this network."""
        is_proven = self.senders.are_proven(hook, network)
        budget, sender = (self._proven, hook) if is_proven else (self._unproven, network)
        with budget.reading(sender) as reading:
            yield reading
