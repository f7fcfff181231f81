"""Whether an account may send so many events now."""

import math
import time
from collections.abc import Callable
from functools import lru_cache

from pipeline_contracts.errors import PayloadTooLarge, RateLimited, StorageUnavailable
from pipeline_contracts.rate_limits import RateLimit, TokenBucket
from storage_backends.rate_counter.interface import RateCounter


class _Slice:
    """Tokens leased and not yet spent, and what the shared bucket held after the lease."""

    __slots__ = ("tokens", "expires", "shared")

    def __init__(self) -> None:
        self.tokens = 0
        self.expires = 0.0
        self.shared = 0


class Admission:
    """Spends tokens that were leased from the shared counter.

    `slice_seconds` of the account's rate are leased at once, so that most requests make no round trip; 0
    leases just what is needed. What is left of a slice lapses after a second. When the counter is away the
    edge goes on with its own share, `fallback_share` of the account's rate.
    """

    def __init__(
        self,
        counter: RateCounter,
        *,
        slice_seconds: float,
        fallback_share: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._counter = counter
        self._slice_seconds = slice_seconds
        self._fallback_share = fallback_share
        self._clock = clock
        self._slices: dict[str, _Slice] = {}
        self._own: dict[str, TokenBucket] = {}
        self.fallbacks = 0

    async def take(self, account_id: str, events: int, limit: RateLimit) -> dict[str, str]:
        """Take `events` tokens; gives the headers that tell what is left.

        Raises `RateLimited` with `Retry-After`, and `PayloadTooLarge` for more than the bucket ever holds.
        """
        if events > limit.burst:
            raise PayloadTooLarge(
                f"{events} events are more than the account's burst of {limit.burst}. Send smaller batches."
            )
        held = self._slices.get(account_id)
        if held is None:
            held = self._slices[account_id] = _Slice()
        now = self._clock()
        if now >= held.expires:
            held.tokens = 0
        # Taken before the wait for the counter: a request beside this one must not count on the same tokens.
        own = min(held.tokens, events)
        held.tokens -= own
        if own < events:
            try:
                await self._lease(account_id, own, events - own, limit, held)
            except BaseException:
                held.tokens += own
                raise
            held.tokens -= events - own
        return _headers(limit, held.shared + held.tokens)

    def give_back(self, account_id: str, events: int) -> None:
        """Return tokens of a request that was not stored after all; they may be spent until the slice lapses."""
        held = self._slices[account_id]
        held.tokens += events
        held.expires = max(held.expires, self._clock() + 1.0)

    async def _lease(self, account_id: str, own: int, missing: int, limit: RateLimit, held: _Slice) -> None:
        most = max(missing, min(int(limit.rate * self._slice_seconds), limit.burst))
        try:
            lease = await self._counter.lease(account_id, missing, most, limit)
        except StorageUnavailable:
            self.fallbacks += 1
            lease = self._own_bucket(account_id, limit).take(
                missing, most, self._own_limit(limit), self._clock()
            )
        if not lease.granted:
            left = own + held.tokens + lease.remaining
            wait = max(1, math.ceil(lease.retry_after))
            raise RateLimited(
                f"The account may send {limit.rate:g} events a second, {limit.burst} at once. "
                f"Send the same request again in {wait} s.",
                headers={**_headers(limit, left), "Retry-After": str(wait)},
            )
        held.tokens += lease.granted
        held.shared = lease.remaining
        held.expires = self._clock() + 1.0

    def _own_limit(self, limit: RateLimit) -> RateLimit:
        return RateLimit(limit.rate * self._fallback_share, limit.burst)

    def _own_bucket(self, account_id: str, limit: RateLimit) -> TokenBucket:
        bucket = self._own.get(account_id)
        if bucket is None:
            bucket = self._own[account_id] = TokenBucket(limit.burst * self._fallback_share, self._clock())
        return bucket


@lru_cache(1024)
def _policy(limit: RateLimit) -> str:
    return f'"ingest";q={limit.burst};w={limit.window_seconds}'


def _headers(limit: RateLimit, remaining: int) -> dict[str, str]:
    # draft-ietf-httpapi-ratelimit-headers: r = what is left of the quota, t = seconds until all of it is there.
    reset = math.ceil((limit.burst - remaining) / limit.rate)
    return {"RateLimit-Policy": _policy(limit), "RateLimit": f'"ingest";r={remaining};t={max(0, reset)}'}
