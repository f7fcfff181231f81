"""Whether an account may send so many events now."""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache

from pipeline_contracts.errors import PayloadTooLarge, RateLimited, StorageUnavailable
from pipeline_contracts.rate_limits import RateLimit, TokenBucket
from storage_backends.rate_counter.interface import RateCounter

# Accounts whose slices are kept. One that is dropped loses what it had leased, a part of a second's budget.
_MOST_ACCOUNTS = 100_000


class _Slice:
    """Tokens leased and not yet spent, and what the shared bucket held after the lease."""

    __slots__ = ("tokens", "expires", "shared", "leasing", "dry_until", "dry_from", "dry_limit")

    def __init__(self) -> None:
        self.tokens = 0
        self.expires = 0.0
        self.shared = 0
        # One lease at a time: the requests behind it look first whether it brought enough for them too.
        self.leasing = asyncio.Lock()
        # Until then the shared bucket cannot hold this many tokens: refused without asking again.
        self.dry_until = 0.0
        self.dry_from = 0
        self.dry_limit: RateLimit | None = None


class Admission:
    """Spends tokens that were leased from the shared counter.

    `slice_seconds` of the account's rate are leased at once, so that most requests make no round trip; 0
    leases just what is needed. What is left of a slice lapses after a second. When the counter is away the
    edge goes on with its own share of the account's rate.
    """

    def __init__(
        self,
        counter: RateCounter,
        *,
        slice_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._counter = counter
        self._slice_seconds = slice_seconds
        self._clock = clock
        self._slices: OrderedDict[str, _Slice] = OrderedDict()
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
        held = self._slice(account_id)
        now = self._clock()
        if now >= held.expires:
            held.tokens = 0
        # Taken before the wait for the counter: a request beside this one must not count on the same tokens.
        own = min(held.tokens, events)
        held.tokens -= own
        if own < events:
            try:
                own += await self._take_more(account_id, own, events - own, limit, held)
            except BaseException:
                held.tokens += own
                raise
        return _headers(limit, held.shared + held.tokens)

    def _slice(self, account_id: str) -> _Slice:
        held = self._slices.get(account_id)
        if held is None:
            held = self._slices[account_id] = _Slice()
            if len(self._slices) > _MOST_ACCOUNTS:
                dropped, _ = self._slices.popitem(last=False)
                self._own.pop(dropped, None)
        else:
            self._slices.move_to_end(account_id)
        return held

    async def _take_more(
        self, account_id: str, own: int, missing: int, limit: RateLimit, held: _Slice
    ) -> int:
        """Take the tokens that the slice did not have, leasing a slice where nobody else just did."""
        async with held.leasing:
            # Taken before the wait here too: others take from the slice without this lock.
            found = min(held.tokens, missing)
            held.tokens -= found
            try:
                if found < missing:
                    await self._lease(account_id, own + found, missing - found, limit, held)
                    held.tokens -= missing - found
            except BaseException:
                held.tokens += found
                raise
            return missing

    def give_back(self, account_id: str, events: int) -> None:
        """Return tokens of a request that was not stored after all; they may be spent until the slice lapses."""
        held = self._slice(account_id)
        held.tokens += events
        held.expires = max(held.expires, self._clock() + 1.0)

    async def _lease(self, account_id: str, own: int, missing: int, limit: RateLimit, held: _Slice) -> None:
        now = self._clock()
        if now < held.dry_until and missing >= held.dry_from and limit == held.dry_limit:
            # Tokens come at the rate and no faster; other edges can only take some.
            raise self._refusal(limit, own + held.tokens, held.dry_until - now)
        most = max(missing, min(int(limit.rate * self._slice_seconds), limit.burst))
        shared = True
        try:
            lease = await self._counter.lease(account_id, missing, most, limit)
        except StorageUnavailable:
            shared = False
            self.fallbacks += 1
            lease = self._own_bucket(account_id, limit).take(
                missing, most, self._own_limit(limit), self._clock()
            )
        if not lease.granted:
            if shared:
                held.dry_until, held.dry_from, held.dry_limit = now + lease.retry_after, missing, limit
            raise self._refusal(limit, own + held.tokens + lease.remaining, lease.retry_after)
        held.tokens += lease.granted
        held.shared = lease.remaining
        held.expires = self._clock() + 1.0

    def _refusal(self, limit: RateLimit, left: int, seconds: float) -> RateLimited:
        wait = max(1, math.ceil(seconds))
        return RateLimited(
            f"The account may send {limit.rate:g} events a second, {limit.burst} at once. "
            f"Send the same request again in {wait} s.",
            headers={**_headers(limit, left), "Retry-After": str(wait)},
        )

    def _own_limit(self, limit: RateLimit) -> RateLimit:
        return RateLimit(limit.rate * self._counter.share(), limit.burst)

    def _own_bucket(self, account_id: str, limit: RateLimit) -> TokenBucket:
        bucket = self._own.get(account_id)
        if bucket is None:
            bucket = self._own[account_id] = TokenBucket(limit.burst * self._counter.share(), self._clock())
        return bucket


@lru_cache(1024)
def _policy(limit: RateLimit) -> str:
    return f'"ingest";q={limit.burst};w={limit.window_seconds}'


def _headers(limit: RateLimit, remaining: int) -> dict[str, str]:
    # draft-ietf-httpapi-ratelimit-headers: r = what is left of the quota, t = seconds until all of it is there.
    reset = math.ceil((limit.burst - remaining) / limit.rate)
    return {"RateLimit-Policy": _policy(limit), "RateLimit": f'"ingest";r={remaining};t={max(0, reset)}'}
