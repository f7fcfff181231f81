"""The token bucket that limits how many events an account may send. Pure: the clock is an argument."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RateLimit:
    """`rate` events a second on average, `burst` events at once."""

    rate: float
    burst: int

    @property
    def window_seconds(self) -> int:
        """Seconds in which an empty bucket fills, at least 1 (the `w` of `RateLimit-Policy`)."""
        return max(1, math.ceil(self.burst / self.rate))


@dataclass(frozen=True, slots=True)
class TokenLease:
    """Tokens taken out of an account's bucket."""

    granted: int
    remaining: int
    retry_after: float
    """Seconds until the bucket will have enough tokens; 0 if they were granted."""


@dataclass(slots=True)
class TokenBucket:
    """The state of a bucket: its tokens at the time `updated` (seconds of any clock)."""

    tokens: float
    updated: float

    def take(self, at_least: int, at_most: int, limit: RateLimit, now: float) -> TokenLease:
        """Take up to `at_most` tokens, or none if the bucket has fewer than `at_least`.

        A clock that is set back adds no tokens; one that jumps ahead fills the bucket once.
        """
        elapsed = max(0.0, now - self.updated)
        self.tokens = min(float(limit.burst), self.tokens + elapsed * limit.rate)
        self.updated = now
        if self.tokens < at_least:
            return TokenLease(0, int(self.tokens), (at_least - self.tokens) / limit.rate)
        granted = min(at_most, int(self.tokens))
        self.tokens -= granted
        return TokenLease(granted, int(self.tokens), 0.0)
