"""Whether an account may send so many events now."""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache, partial

from pipeline_contracts.errors import PayloadTooLarge, RateLimited, StorageUnavailable
from pipeline_contracts.rate_limits import RateLimit, TokenBucket, TokenLease
from storage_backends.rate_counter.interface import RateCounter

# Accounts whose slices are kept. One that is dropped loses what it had leased, a part of a second's budget.
_MOST_ACCOUNTS = 100_000


class _Slice:
    """Tokens leased and not yet spent, and what the shared bucket held when it was last heard of."""

    __slots__ = (
        *("tokens", "expires", "shared", "told", "own", "leasing", "under_way"),
        *("dry_until", "dry_from", "dry_limit"),
    )

    def __init__(self) -> None:
        self.tokens = 0
        self.expires = 0.0
        self.shared = 0
        # When the shared bucket was last heard of; None: never.
        self.told: float | None = None
        # This edge's part of the account while the counter is away, kept as long as it is.
        self.own: TokenBucket | None = None
        # One lease at a time: the requests behind it look first whether it brought enough for them too.
        self.leasing = asyncio.Lock()
        # The lease that is being asked for, maybe by a request that was given up meanwhile.
        self.under_way: asyncio.Task[tuple[TokenLease, bool]] | None = None
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
                self._slices.popitem(last=False)
        else:
            self._slices.move_to_end(account_id)
        return held

    async def _take_more(
        self, account_id: str, own: int, missing: int, limit: RateLimit, held: _Slice
    ) -> int:
        """Take the tokens that the slice did not have, leasing a slice where nobody else just did."""
        async with held.leasing:
            if held.under_way is not None:
                # Of a request that was given up: what it brings is this one's.
                await asyncio.wait({held.under_way})
                held.under_way = None
            # Taken before the wait here too: others take from the slice without this lock.
            found = min(held.tokens, missing)
            held.tokens -= found
            try:
                if found < missing:
                    await self._lease(account_id, own + found, missing - found, limit, held)
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
        """Lease what is missing for the request; what comes beyond that goes into the slice."""
        now = self._clock()
        if now < held.dry_until and missing >= held.dry_from and limit == held.dry_limit:
            # Tokens come at the rate and no faster; other edges can only take some.
            raise self._refusal(limit, own + held.tokens, held.dry_until - now)
        most = max(missing, min(int(limit.rate * self._slice_seconds), limit.burst))
        if self._slice_seconds:
            # A task of its own: tokens that the counter has given come in even if this request is given up.
            asking = held.under_way = asyncio.create_task(self._ask(account_id, missing, most, limit, held))
            try:
                lease, shared = await asyncio.shield(asking)
            except asyncio.CancelledError:
                asking.add_done_callback(partial(_hand_over, held, missing))
                raise
            held.under_way = None
        else:
            # Such a counter answers without a wait, and a task costs more than it does.
            lease, shared = await self._ask(account_id, missing, most, limit, held)
        if not lease.granted:
            if shared:
                held.dry_until, held.dry_from, held.dry_limit = now + lease.retry_after, missing, limit
            raise self._refusal(limit, own + held.tokens + lease.remaining, lease.retry_after)

    async def _ask(
        self, account_id: str, missing: int, most: int, limit: RateLimit, held: _Slice
    ) -> tuple[TokenLease, bool]:
        """Gives the lease, and whether it came from the shared counter. All but what is missing is in the slice."""
        try:
            lease = await self._counter.lease(account_id, missing, most, limit)
        except StorageUnavailable:
            self.fallbacks += 1
            lease, shared = self._lease_own(missing, most, limit, held), False
        else:
            shared = True
            held.told, held.own = self._clock(), None
        held.shared = lease.remaining
        if lease.granted:
            # Not the rest, not even for a moment: another request would take it before this one goes on.
            held.tokens += lease.granted - missing
            held.expires = self._clock() + 1.0
        return lease, shared

    def _lease_own(self, missing: int, most: int, limit: RateLimit, held: _Slice) -> TokenLease:
        """What the edge lets through by itself: its share of the rate, from where the shared bucket was left."""
        now, share = self._clock(), self._counter.share()
        if held.own is None:
            # Not a full one each time: a counter that comes and goes would give a burst each time it goes.
            left, since = (limit.burst, now) if held.told is None else (held.shared, held.told)
            held.own = TokenBucket(left * share, since)
        # May fill to the whole burst: a batch of that size has to get through, if later.
        return held.own.take(missing, most, RateLimit(limit.rate * share, limit.burst), now)

    def _refusal(self, limit: RateLimit, left: int, seconds: float) -> RateLimited:
        wait = max(1, math.ceil(seconds))
        return RateLimited(
            f"The account may send {limit.rate:g} events a second, {limit.burst} at once. "
            f"Send the same request again in {wait} s.",
            headers={**_headers(limit, left), "Retry-After": str(wait)},
        )


def _hand_over(held: _Slice, reserved: int, asked: asyncio.Task[tuple[TokenLease, bool]]) -> None:
    """Put what was leased for a request that was given up into the slice."""
    if not asked.cancelled() and asked.exception() is None and asked.result()[0].granted:
        held.tokens += reserved


@lru_cache(1024)
def _policy(limit: RateLimit) -> str:
    return f'"ingest";q={limit.burst};w={limit.window_seconds}'


def _headers(limit: RateLimit, remaining: int) -> dict[str, str]:
    # draft-ietf-httpapi-ratelimit-headers: r = what is left of the quota, t = seconds until all of it is there.
    reset = math.ceil((limit.burst - remaining) / limit.rate)
    return {"RateLimit-Policy": _policy(limit), "RateLimit": f'"ingest";r={remaining};t={max(0, reset)}'}
