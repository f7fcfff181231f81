"""Limits the correctly signed deliveries of an account, and decides when to trim its stored bodies."""

import math
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

from pipeline_contracts.errors import TooManyRequests
from pipeline_contracts.rate_limits import RateLimit, TokenBucket

DELIVERIES = RateLimit(5.0, 1000)
"""Of an account. A host sends one for each push and each change of a pull request."""
_TRIM_BYTES = 16 * 2**20
"""So many bytes of a webhook may come before its kept bodies are looked at."""
_MOST_REMEMBERED = 10_000


class AcceptedDeliveries:
    """Counts the recent deliveries of accounts and webhooks to this process."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()
        self._bytes: OrderedDict[str, int] = OrderedDict()

    def take(self, account: str) -> None:
        """Count a delivery with a valid signature. Raises `TooManyRequests`."""
        now = self._clock()
        bucket = self._buckets.setdefault(account, TokenBucket(DELIVERIES.burst, now))
        self._buckets.move_to_end(account)
        if len(self._buckets) > _MOST_REMEMBERED:
            self._buckets.popitem(last=False)
        lease = bucket.take(1, 1, DELIVERIES, now)
        if not lease.granted:
            again = max(1, math.ceil(lease.retry_after))
            raise TooManyRequests(
                f"The webhooks of the account may deliver {DELIVERIES.rate:g} times a second, {DELIVERIES.burst} at "
                f"once. Deliver it again in {again} s.",
                headers={"Retry-After": str(again)},
            )

    def is_trim_due(self, hook: str, count: int) -> bool:
        """Count a body of `count` bytes before it is stored; return True if older bodies have to be trimmed first."""
        # A new process does not know the former bodies: the first trim is due at once.
        had = self._bytes.pop(hook, _TRIM_BYTES) + count
        is_due = had > _TRIM_BYTES
        self._bytes[hook] = count if is_due else had
        if len(self._bytes) > _MOST_REMEMBERED:
            self._bytes.popitem(last=False)
        return is_due
