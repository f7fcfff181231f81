"""How many requests an account, or an address that has proved nothing, may make: at once and per second.

An account is known by its token only once the database has confirmed the token. Until then a request counts towards the
client's address, so that invented tokens get nobody a limit of their own.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from control_api.fair_queue import FairQueue, QueueFull, QueueLimits, WaitedTooLong
from pipeline_contracts.errors import TooManyRequests
from pipeline_contracts.rate_limits import RateLimit, TokenBucket
from pipeline_contracts.settings import Settings

# A process runs so many at once in all, and has so many waiting; each caller's share is a setting.
_RUNNING = 256
_WAITING = 4096
# Per request that may run: a burst of parallel requests waits, and is not refused.
_WAITING_FOR_EACH_RUNNING = 8
_WAIT_SECONDS = 10.0
_MOST_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class RequestBounds:
    """The limits of a process."""

    account: RateLimit = RateLimit(200.0, 2000)
    address: RateLimit = RateLimit(100.0, 1000)
    at_once: int = 32

    @classmethod
    def from_settings(cls, settings: Settings) -> "RequestBounds":
        return cls(
            RateLimit(settings.account_request_rate, settings.account_request_burst),
            RateLimit(settings.address_request_rate, settings.address_request_burst),
            settings.max_requests_at_once,
        )


class RequestLimits:
    """The present state of all callers of a process."""

    def __init__(self, bounds: RequestBounds, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._bounds = bounds
        self._monotonic = monotonic
        waiting = _WAITING_FOR_EACH_RUNNING * bounds.at_once
        self._queue = FairQueue(QueueLimits(_RUNNING, bounds.at_once, _WAITING, waiting, _WAIT_SECONDS))
        self._owners: OrderedDict[bytes, str] = OrderedDict()
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def remember(self, digest: bytes, owner: str) -> None:
        """Note that the database knows a credential by its digest: its next requests count towards `owner`."""
        self._owners[digest] = owner
        _keep_newest(self._owners, digest)

    async def enter(self, digest: bytes | None, address: str) -> str:
        """Wait until a request may run; give the key with which `leave` ends it. Raises `TooManyRequests`."""
        owner = None if digest is None else self._owners.get(digest)
        key = owner or f"address {address}"
        self._take(key, self._bounds.account if owner else self._bounds.address)
        try:
            await self._queue.enter(key)
        except (QueueFull, WaitedTooLong) as error:
            raise TooManyRequests(
                f"More than {self._bounds.at_once} requests run at once, and too many more wait. "
                "Send the same request again, with fewer at once.",
                headers={"Retry-After": "1"},
            ) from error
        return key

    def leave(self, key: str) -> None:
        """End a request."""
        self._queue.leave(key)

    def _take(self, key: str, limit: RateLimit) -> None:
        now = self._monotonic()
        bucket = self._buckets.setdefault(key, TokenBucket(limit.burst, now))
        _keep_newest(self._buckets, key)
        lease = bucket.take(1, 1, limit, now)
        if not lease.granted:
            again = max(1, math.ceil(lease.retry_after))
            raise TooManyRequests(
                f"{'The address' if key.startswith('address ') else 'The account'} may send {limit.rate:g} requests a "
                f"second, {limit.burst} at once. Send the same request again in {again} s.",
                headers={"Retry-After": str(again)},
            )


def _keep_newest(
    remembered: "OrderedDict[bytes, str] | OrderedDict[str, TokenBucket]", key: bytes | str
) -> None:
    remembered.move_to_end(key)  # type: ignore[arg-type]
    if len(remembered) > _MOST_REMEMBERED:
        remembered.popitem(last=False)
