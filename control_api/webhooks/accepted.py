"""How many correctly signed deliveries are taken of an account, and when its kept bodies have to be looked at."""

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
    """What accounts and webhooks have delivered lately to this process."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()
        self._bytes: OrderedDict[str, int] = OrderedDict()

    def take(self, account: str) -> None:
        """Count a delivery whose signature was good. Raises `TooManyRequests`."""
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
        """Count a body of `count` bytes that is about to be kept, and return whether older ones have to give way
        before."""
        # A process that has just started does not know what came before: it looks at once.
        had = self._bytes.pop(hook, _TRIM_BYTES) + count
        is_due = had > _TRIM_BYTES
        self._bytes[hook] = count if is_due else had
        if len(self._bytes) > _MOST_REMEMBERED:
            self._bytes.popitem(last=False)
        return is_due
