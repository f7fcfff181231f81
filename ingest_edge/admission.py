"""Admit events of an account within its rate limit."""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache, partial

from pipeline_contracts.errors import PayloadTooLarge, RateLimited, StorageUnavailable
from pipeline_contracts.rate_limits import RateLimit, TokenBucket, TokenLease
from storage_backends.rate_counter.interface import RateCounter

# A lease has the tokens of this many further requests, but no more than this edge's share of the rate grants in this
# time: the edge must be able to spend them before they expire.
_REQUESTS_AHEAD = 8
_SECONDS_AHEAD = 0.2
# Number of accounts whose leased tokens are kept. An evicted account loses its tokens, which are at most a part of one
# second's budget.
_MAX_ACCOUNTS = 100_000


class _AccountTokens:
    """An account's leased and unspent tokens in this edge, and the last known state of the shared bucket."""

    __slots__ = (
        *("tokens", "usual", "expires", "shared", "shared_at", "local_bucket", "lock", "pending_lease"),
        *("empty_until", "empty_for", "empty_limit"),
    )

    def __init__(self) -> None:
        self.tokens = 0
        # Events of the latest requests: rises immediately, and falls by an eighth with each smaller one.
        self.usual = 1
        self.expires = 0.0
        self.shared = 0
        # Time of the last response of the shared bucket; None if there was none.
        self.shared_at: float | None = None
        # This edge's share of the account's rate while the counter is unreachable.
        self.local_bucket: TokenBucket | None = None
        # One lease at a time: requests that wait for it first use its tokens.
        self.lock = asyncio.Lock()
        # The lease in progress. Its request may have been canceled meanwhile.
        self.pending_lease: asyncio.Task[tuple[TokenLease, bool]] | None = None
        # Until this time the shared bucket cannot have `empty_for` tokens: requests are refused without a lease.
        self.empty_until = 0.0
        self.empty_for = 0
        self.empty_limit: RateLimit | None = None


class Admission:
    """Spends tokens that were leased from the shared counter.

    `slice_seconds` of the account's rate are leased together, and more for large requests, so that most of them make no
    round trip; 0 leases only the tokens of the request. Unspent tokens expire after a second. While the counter is
    unreachable, the edge uses its own share of the account's rate.
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
        self._accounts: OrderedDict[str, _AccountTokens] = OrderedDict()
        self.fallbacks = 0

    async def take(self, account_id: str, events: int, limit: RateLimit) -> dict[str, str]:
        """Take `events` tokens, and return the response headers with the remaining quota.

        Raises `RateLimited` with `Retry-After`, and `PayloadTooLarge` for more than the bucket can ever have.
        """
        headers = self.take_now(account_id, events, limit)
        if headers is not None:
            return headers
        if events > limit.burst:
            raise PayloadTooLarge(
                f"{events} events are more than the account's burst of {limit.burst}. Send smaller batches."
            )
        account = self._account(account_id)
        now = self._clock()
        if now >= account.expires:
            account.tokens = 0
        # Taken before the wait for the counter: a concurrent request must not use the same tokens.
        taken = min(account.tokens, events)
        account.tokens -= taken
        if taken < events:
            try:
                taken += await self._take_missing(account_id, taken, events - taken, limit, account)
            except BaseException:
                account.tokens += taken
                raise
        return _headers(limit, account.shared + account.tokens)

    def take_now(self, account_id: str, events: int, limit: RateLimit) -> dict[str, str] | None:
        """Like `take`, but None if the request has to wait for a lease, or is refused. In that case no tokens were
        taken."""
        account = self._account(account_id)
        account.usual = max(events, account.usual * 7 // 8)
        if events > limit.burst:
            return None
        tokens = account.tokens if self._clock() < account.expires else 0
        if tokens >= events:
            account.tokens = tokens - events
        elif not self._slice_seconds:
            lease = self._counter.lease_now(account_id, events - tokens, events - tokens, limit)
            if lease is None or not lease.granted:
                return None
            account.tokens, account.shared, account.expires = 0, lease.remaining, self._clock() + 1.0
        else:
            return None
        return _headers(limit, account.shared + account.tokens)

    def may_take_now(self, account_id: str) -> bool:
        """False if `take_now` would return None for the number of events that the account usually sends."""
        account = self._account(account_id)
        return not self._slice_seconds or (
            account.tokens >= account.usual and self._clock() < account.expires
        )

    @property
    def waits_for_leases(self) -> bool:
        """False if `take_now` returns None only for requests that are refused."""
        return self._slice_seconds > 0

    def _account(self, account_id: str) -> _AccountTokens:
        account = self._accounts.get(account_id)
        if account is None:
            account = self._accounts[account_id] = _AccountTokens()
            if len(self._accounts) > _MAX_ACCOUNTS:
                self._accounts.popitem(last=False)
        else:
            self._accounts.move_to_end(account_id)
        return account

    async def _take_missing(
        self, account_id: str, taken: int, missing: int, limit: RateLimit, account: _AccountTokens
    ) -> int:
        """Take the missing tokens: from a lease that another request has just made, or from a new one."""
        async with account.lock:
            if account.pending_lease is not None:
                # The lease of a canceled request: this request may use its tokens.
                await asyncio.wait({account.pending_lease})
                account.pending_lease = None
            # Taken before the wait here too: `take` takes tokens without this lock.
            found = min(account.tokens, missing)
            account.tokens -= found
            try:
                if found < missing:
                    await self._lease(account_id, taken + found, missing - found, limit, account)
            except BaseException:
                account.tokens += found
                raise
            return missing

    def refund(self, account_id: str, events: int) -> None:
        """Return the tokens of a request that was not stored; they can be spent for another second."""
        account = self._account(account_id)
        account.tokens += events
        account.expires = max(account.expires, self._clock() + 1.0)

    async def _lease(
        self, account_id: str, taken: int, missing: int, limit: RateLimit, account: _AccountTokens
    ) -> None:
        """Lease the missing tokens of a request; further tokens of the lease are kept for the next requests."""
        now = self._clock()
        if now < account.empty_until and missing >= account.empty_for and limit == account.empty_limit:
            # The bucket fills no faster than the rate, and other edges only take tokens out.
            raise self._refusal(limit, taken + account.tokens, account.empty_until - now)
        at_most = min(missing + self._ahead(account, limit), max(missing, limit.burst))
        if self._slice_seconds:
            # A separate task, so that tokens of the lease are kept even if this request is canceled.
            pending = account.pending_lease = asyncio.create_task(
                self._lease_from_counter(account_id, missing, at_most, limit, account)
            )
            try:
                lease, shared = await asyncio.shield(pending)
            except asyncio.CancelledError:
                pending.add_done_callback(partial(_keep_reserved, account, missing))
                raise
            account.pending_lease = None
        else:
            # Such a counter returns without waiting, and a task would cost more than the lease.
            lease, shared = await self._lease_from_counter(account_id, missing, at_most, limit, account)
        if not lease.granted:
            if shared:
                account.empty_until, account.empty_for, account.empty_limit = (
                    now + lease.retry_after,
                    missing,
                    limit,
                )
            raise self._refusal(limit, taken + account.tokens + lease.remaining, lease.retry_after)

    def _ahead(self, account: _AccountTokens, limit: RateLimit) -> int:
        """Return how many tokens the next requests will probably need. Those that they do not need are lost."""
        if not self._slice_seconds:
            return 0
        seconds = _SECONDS_AHEAD * self._counter.share()
        requests = min(_REQUESTS_AHEAD * account.usual, int(limit.rate * seconds))
        return max(int(limit.rate * self._slice_seconds), requests)

    async def _lease_from_counter(
        self, account_id: str, missing: int, at_most: int, limit: RateLimit, account: _AccountTokens
    ) -> tuple[TokenLease, bool]:
        """Return the lease, and whether the shared counter granted it. Keeps all its tokens but the missing ones."""
        try:
            lease = await self._counter.lease(account_id, missing, at_most, limit)
        except StorageUnavailable:
            self.fallbacks += 1
            lease, shared = self._lease_locally(missing, at_most, limit, account), False
        else:
            shared = True
            account.shared_at, account.local_bucket = self._clock(), None
        account.shared = lease.remaining
        if lease.granted:
            # Never add the missing tokens here: another request could take them before this one continues.
            account.tokens += lease.granted - missing
            account.expires = self._clock() + 1.0
        return lease, shared

    def _lease_locally(
        self, missing: int, at_most: int, limit: RateLimit, account: _AccountTokens
    ) -> TokenLease:
        """Lease from this edge's share of the rate, beginning with the last known state of the shared bucket."""
        now, share = self._clock(), self._counter.share()
        if account.local_bucket is None:
            # Not a full bucket: each outage of a flapping counter would grant another burst.
            left, since = (
                (limit.burst, now) if account.shared_at is None else (account.shared, account.shared_at)
            )
            account.local_bucket = TokenBucket(left * share, since)
        # The bucket may fill to the whole burst: a batch of that size must be accepted, if later.
        return account.local_bucket.take(missing, at_most, RateLimit(limit.rate * share, limit.burst), now)

    def _refusal(self, limit: RateLimit, left: int, seconds: float) -> RateLimited:
        wait = max(1, math.ceil(seconds))
        return RateLimited(
            f"The account may send {limit.rate:g} events a second, {limit.burst} at once. "
            f"Send the same request again in {wait} s.",
            headers={**_headers(limit, left), "Retry-After": str(wait)},
        )


def _keep_reserved(
    account: _AccountTokens, reserved: int, pending: asyncio.Task[tuple[TokenLease, bool]]
) -> None:
    """Keep the tokens that were leased for a canceled request."""
    if not pending.cancelled() and pending.exception() is None and pending.result()[0].granted:
        account.tokens += reserved


@lru_cache(1024)
def _policy(limit: RateLimit) -> str:
    return f'"ingest";q={limit.burst};w={limit.window_seconds}'


def _headers(limit: RateLimit, remaining: int) -> dict[str, str]:
    # draft-ietf-httpapi-ratelimit-headers: r = remaining quota, t = seconds until the whole quota is available.
    reset = math.ceil((limit.burst - remaining) / limit.rate)
    return {"RateLimit-Policy": _policy(limit), "RateLimit": f'"ingest";r={remaining};t={max(0, reset)}'}
