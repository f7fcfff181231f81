"""Memory for the bodies of deliveries, which have proved nothing until they are complete (decisions/0034).

Bytes count once they have arrived. Where memory is short the body that is being read for longest ends: hosts send a
body at once, so that whoever holds on gives way to them.
"""

import asyncio
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from control_api.limits.accepted_webhooks import AcceptedDeliveries
from control_api.limits.webhook_senders import Senders
from pipeline_contracts.client_address import site_of
from pipeline_contracts.errors import Unavailable

MOST_BYTES = 5 * 2**20
"""Of one body."""
_RETRY_SECONDS = 5

_Key = tuple[int, str]
"""Which limit counts for whom."""


class BodyReading:
    """The bytes of one body that is being read, or was read and is in flight."""

    __slots__ = ("keys", "bytes", "was_ended", "_budget", "_timeout")

    def __init__(self, budget: "BodyBudget", keys: tuple[_Key, ...]) -> None:
        self.keys = keys
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
            self._budget.finish(self)

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
    """A limit for all bodies together, and shares of it: for each sender, and for each group that senders are of."""

    def __init__(self, limit: int, *shares: int) -> None:
        # The narrowest first: who is over a share of their own gives way to themselves.
        self._limits = (*shares, limit)
        self._all: _Key = (len(shares), "")
        # Those that can end, in the order of their first bytes.
        self._unfinished: dict[_Key, OrderedDict[BodyReading, None]] = defaultdict(OrderedDict)
        self._held: Counter[_Key] = Counter()

    @property
    def bytes(self) -> int:
        return self._held[self._all]

    @contextmanager
    def reading(self, *senders: str) -> Iterator[BodyReading]:
        """A body of this sender, who has a name for each of the shares; at the end its bytes are free."""
        reading = BodyReading(self, (*enumerate(senders), self._all))
        try:
            yield reading
        finally:
            self.release(reading)

    def add(self, reading: BodyReading, count: int) -> None:
        """Count bytes; older bodies end for it. Raises `Unavailable`."""
        if reading.was_ended:
            raise gave_way()
        for key, limit in zip(reading.keys, self._limits, strict=True):
            while self._held[key] + count > limit:
                self._make_room(reading, key)
        reading.bytes += count
        for key in reading.keys:
            self._held[key] += count
            if count and reading.can_end:
                self._unfinished[key].setdefault(reading)

    def _make_room(self, asking: BodyReading, key: _Key) -> None:
        """End the oldest body. Whoever holds most may be a host whose body is large, so that size decides nothing; and
        by age the one that asks is no exception, or an old body would push out younger ones byte by byte."""
        oldest = next(iter(self._unfinished.get(key, ())), None)
        if oldest is None:
            raise Unavailable(
                "Too many deliveries arrive at once. Deliver it again.", retry_after=_RETRY_SECONDS
            )
        if oldest is asking:
            raise gave_way()
        oldest.end()

    def finish(self, reading: BodyReading) -> None:
        """Keep the bytes of a body that is complete: it gives way no more."""
        for key in reading.keys:
            unfinished = self._unfinished.get(key)
            if unfinished is not None:
                unfinished.pop(reading, None)
                if not unfinished:
                    del self._unfinished[key]

    def release(self, reading: BodyReading) -> None:
        """Free the bytes of a body. A sender that holds nothing is forgotten."""
        self.finish(reading)
        for key in reading.keys:
            self._held[key] -= reading.bytes
            if not self._held[key]:
                del self._held[key]
        reading.bytes = 0


def gave_way() -> Unavailable:
    """The answer to a body that was being read when others needed its memory."""
    return Unavailable(
        "The body was not complete when others needed its memory. Deliver it again.",
        retry_after=_RETRY_SECONDS,
    )


class WebhookBodies:
    """Two budgets, so that senders who have proved nothing leave alone the memory of those who have.

    Of the one each network has a share, and the site that it is of; of the other each webhook, and the account that it
    is of: whoever has secrets, or many addresses, fills no more than that.
    """

    def __init__(
        self,
        *,
        unproven: tuple[int, int, int] = (24 * 2**20, MOST_BYTES, 2 * MOST_BYTES),
        proven: tuple[int, int, int] = (40 * 2**20, 2 * MOST_BYTES, 3 * MOST_BYTES),
    ) -> None:
        self._unproven = BodyBudget(*unproven)
        self._proven = BodyBudget(*proven)
        self.senders = Senders()
        self.accepted = AcceptedDeliveries()

    @property
    def bytes(self) -> int:
        """Bytes of all bodies in flight."""
        return self._unproven.bytes + self._proven.bytes

    @contextmanager
    def reading(self, hook: str, network: str, account: str | None = None) -> Iterator[BodyReading]:
        """A body for this webhook from this network. A webhook that is of no account is a group of its own."""
        if self.senders.are_proven(hook, network):
            body = self._proven.reading(hook, hook if account is None else account)
        else:
            body = self._unproven.reading(network, site_of(network))
        with body as reading:
            yield reading
