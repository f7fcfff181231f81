"""A rate counter in memory. It is exact if there is only one edge."""

import time
from collections.abc import Callable

from pipeline_contracts.rate_limits import RateLimit, TokenBucket, TokenLease


class InProcessRateCounter:
    """A `RateCounter` in memory. `clock`: returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, TokenBucket] = {}

    async def lease(self, account_id: str, at_least: int, at_most: int, limit: RateLimit) -> TokenLease:
        return self.lease_now(account_id, at_least, at_most, limit)

    def lease_now(self, account_id: str, at_least: int, at_most: int, limit: RateLimit) -> TokenLease:
        now = self._clock()
        bucket = self._buckets.get(account_id)
        if bucket is None:
            bucket = self._buckets[account_id] = TokenBucket(float(limit.burst), now)
        return bucket.take(at_least, at_most, limit, now)

    def share(self) -> float:
        return 1.0

    async def close(self) -> None:
        self._buckets.clear()
