"""Token buckets for many keys; a process remembers the most recently used ones."""

import math
from collections import OrderedDict
from collections.abc import Callable

from pipeline_contracts.rate_limits import RateLimit, TokenBucket

MAX_REMEMBERED = 10_000


class TokenBuckets:
    """One bucket for each key. `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def take(self, key: str, limit: RateLimit) -> int | None:
        """Take a token. Return None, or the whole seconds (at least 1) until a token is available."""
        now = self._clock()
        bucket = self._buckets.setdefault(key, TokenBucket(limit.burst, now))
        self._buckets.move_to_end(key)
        if len(self._buckets) > MAX_REMEMBERED:
            self._buckets.popitem(last=False)
        lease = bucket.take(1, 1, limit, now)
        return None if lease.granted else max(1, math.ceil(lease.retry_after))
