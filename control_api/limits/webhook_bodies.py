"""Memory budgets for webhook bodies, whose signatures can be checked only when they are complete (decisions/0034).

Only bytes that have arrived count. When a budget is full, the body that has been incomplete for longest is aborted: a
Git host sends a body at once, so slow senders lose to fast ones.
"""

import asyncio
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from control_api.limits.webhook_limits import AcceptedDeliveries, WebhookSenders
from pipeline_contracts.client_address import wider_network_of
from pipeline_contracts.errors import Unavailable

MAX_BODY_BYTES = 5 * 2**20
_RETRY_SECONDS = 5

_Key = tuple[int, str]
"""The index of a limit, and the sender or group that it counts for."""


class BodyReading:
    """The bytes of one body that is being read, or was read and is in flight."""

    __slots__ = ("keys", "bytes", "was_aborted", "_budget", "_timeout")

    def __init__(self, budget: "BodyBudget", keys: tuple[_Key, ...]) -> None:
        self.keys = keys
        self.bytes = 0
        self.was_aborted = False
        """True if the body was aborted because another body needed the memory."""
        self._budget = budget
        self._timeout: asyncio.Timeout | None = None

    @contextmanager
    def abortable(self, timeout: asyncio.Timeout) -> Iterator[None]:
        """Allow the budget to abort the body, by ending `timeout`, while the body is being read."""
        self._timeout = timeout
        try:
            yield
        finally:
            self._timeout = None
            self._budget.mark_complete(self)

    @property
    def can_abort(self) -> bool:
        return self._timeout is not None and not self.was_aborted

    def add(self, count: int) -> None:
        """Count bytes that have arrived. Raises `Unavailable` if there is no memory for them."""
        self._budget.add(self, count)

    def abort(self) -> None:
        """Stop reading the body, and free its bytes at once."""
        assert self._timeout is not None
        self.was_aborted = True
        # An expired timeout ends by itself and cannot be rescheduled.
        if not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time())
        self._budget.release(self)


class BodyBudget:
    """A limit for all bodies together, with shares for each sender and for each group of senders."""

    def __init__(self, limit: int, *shares: int) -> None:
        # The smallest share first: a sender that exceeds it aborts only its own bodies.
        self._limits = (*shares, limit)
        self._total_key: _Key = (len(shares), "")
        # Bodies that can be aborted, in the order of their first bytes.
        self._incomplete: dict[_Key, OrderedDict[BodyReading, None]] = defaultdict(OrderedDict)
        self._used: Counter[_Key] = Counter()

    @property
    def bytes(self) -> int:
        return self._used[self._total_key]

    @contextmanager
    def reading(self, *senders: str) -> Iterator[BodyReading]:
        """Yield the count of one body, and free its bytes at the end. `senders` has one name for each share: the
        sender, then its groups."""
        reading = BodyReading(self, (*enumerate(senders), self._total_key))
        try:
            yield reading
        finally:
            self.release(reading)

    def add(self, reading: BodyReading, count: int) -> None:
        """Count bytes, and abort older bodies if a limit is reached. Raises `Unavailable`."""
        if reading.was_aborted:
            raise aborted_error()
        for key, limit in zip(reading.keys, self._limits, strict=True):
            while self._used[key] + count > limit:
                self._abort_oldest(reading, key)
        reading.bytes += count
        for key in reading.keys:
            self._used[key] += count
            if count and reading.can_abort:
                self._incomplete[key].setdefault(reading)

    def _abort_oldest(self, requester: BodyReading, key: _Key) -> None:
        """Abort the oldest incomplete body of `key`. Raises `Unavailable` if there is none, or if it is `requester`:
        otherwise an old body would push out younger ones byte by byte. Size does not count, because the largest body
        may be a Git host's."""
        oldest = next(iter(self._incomplete.get(key, ())), None)
        if oldest is None:
            raise Unavailable(
                "Too many deliveries arrive at once. Deliver it again.", retry_after=_RETRY_SECONDS
            )
        if oldest is requester:
            raise aborted_error()
        oldest.abort()

    def mark_complete(self, reading: BodyReading) -> None:
        """Keep the bytes of a complete body, which cannot be aborted any more."""
        for key in reading.keys:
            incomplete = self._incomplete.get(key)
            if incomplete is not None:
                incomplete.pop(reading, None)
                if not incomplete:
                    del self._incomplete[key]

    def release(self, reading: BodyReading) -> None:
        """Free the bytes of a body. A sender without bytes is removed."""
        self.mark_complete(reading)
        for key in reading.keys:
            self._used[key] -= reading.bytes
            if not self._used[key]:
                del self._used[key]
        reading.bytes = 0


def aborted_error() -> Unavailable:
    """Return the error for an incomplete body that was aborted because others needed its memory."""
    return Unavailable(
        "The body was not complete when other deliveries needed its memory. Deliver it again.",
        retry_after=_RETRY_SECONDS,
    )


class WebhookBodies:
    """Two budgets, so that unverified senders cannot use the memory of verified ones (`WebhookSenders.is_verified`).

    The budget of unverified senders has a share for each network and each site of networks; the budget of verified
    senders has a share for each webhook and each account.
    """

    def __init__(
        self,
        *,
        unverified: tuple[int, int, int] = (24 * 2**20, MAX_BODY_BYTES, 2 * MAX_BODY_BYTES),
        verified: tuple[int, int, int] = (40 * 2**20, 2 * MAX_BODY_BYTES, 3 * MAX_BODY_BYTES),
    ) -> None:
        self._unverified = BodyBudget(*unverified)
        self._verified = BodyBudget(*verified)
        self.senders = WebhookSenders()
        self.accepted = AcceptedDeliveries()

    @property
    def bytes(self) -> int:
        """Bytes of all bodies in flight."""
        return self._unverified.bytes + self._verified.bytes

    @contextmanager
    def reading(self, hook: str, network: str, account: str | None = None) -> Iterator[BodyReading]:
        """Yield the count of a body for this webhook from this network. A webhook without an account is a group of its
        own."""
        if self.senders.is_verified(hook, network):
            body = self._verified.reading(hook, hook if account is None else account)
        else:
            body = self._unverified.reading(network, wider_network_of(network))
        with body as reading:
            yield reading
