"""Limits how many lines of output an account stores, so that most of the account's ingest rate is left for its
other events."""

import time
from collections.abc import Callable

SHARE = 0.2
"""The share of the account's ingest rate that output may use."""
_BURST_SECONDS = 10.0
_LEAST_RATE = 1.0


class LineBudget:
    """Keeps a token bucket of lines for each account."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[int, tuple[float, float]] = {}
        """The number of lines that an account has left, and the time of that figure."""

    def available(self, account_id: int, ingest_rate: float) -> int:
        """Return how many lines of the account may be sent now."""
        rate, most = _rate(ingest_rate), self.most(ingest_rate)
        now = self._clock()
        left, at = self._buckets.get(account_id, (most, now))
        left = min(most, left + (now - at) * rate)
        self._buckets[account_id] = (left, now)
        return int(left)

    def most(self, ingest_rate: float) -> int:
        """Return how many lines an account may send at once."""
        return int(_rate(ingest_rate) * _BURST_SECONDS)

    def most_events(self, ingest_rate: float, ingest_burst: int) -> int:
        """Return how many events one batch of the account may have."""
        # Use half of the burst: a batch of the whole burst would have to wait until the account sends nothing
        # else.
        return max(1, min(self.most(ingest_rate), ingest_burst // 2))

    def take(self, account_id: int, ingest_rate: float, lines: int) -> None:
        """Count lines that are sent; a negative number returns lines that were counted."""
        self.available(account_id, ingest_rate)
        left, at = self._buckets[account_id]
        self._buckets[account_id] = (left - lines, at)


def _rate(ingest_rate: float) -> float:
    return max(_LEAST_RATE, ingest_rate * SHARE)
