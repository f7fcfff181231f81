"""Behaviour of every rate counter. A new engine is one more parameter of the fixture."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator

import pytest

from pipeline_contracts.rate_limits import RateLimit
from storage_backends.rate_counter.in_process import InProcessRateCounter
from storage_backends.rate_counter.interface import RateCounter
from storage_backends.rate_counter.redis import open_redis_rate_counter

# So slow that no token refills during a test.
SLOW = RateLimit(rate=0.01, burst=1000)
# Seconds by which the clock of Redis and this process's clock may differ.
_CLOCKS = 0.02


@pytest.fixture(params=["in-process", "redis"])
async def counter(request: pytest.FixtureRequest, redis_url: str) -> AsyncIterator[RateCounter]:
    opened: RateCounter = (
        InProcessRateCounter() if request.param == "in-process" else await open_redis_rate_counter(redis_url)
    )
    yield opened
    await opened.close()


@pytest.fixture
def account() -> str:
    return secrets.token_hex(6)


async def test_a_bucket_begins_full_and_returns_the_wait_for_tokens(
    counter: RateCounter, account: str
) -> None:
    started = time.monotonic()
    lease = await counter.lease(account, 1000, 1000, SLOW)
    assert (lease.granted, lease.remaining, lease.retry_after) == (1000, 0, 0)
    refused = await counter.lease(account, 50, 50, SLOW)
    took = time.monotonic() - started
    assert (refused.granted, refused.remaining) == (0, 0)
    assert 5000 - took - _CLOCKS <= refused.retry_after <= 5000


async def test_a_bucket_fills_at_its_rate_with_fractions(counter: RateCounter, account: str) -> None:
    # So large that the bucket never overflows.
    limit = RateLimit(rate=100, burst=1_000_000)

    async def take_tokens() -> tuple[int, float, float]:
        """Return the number of granted tokens, and the time span."""
        before = time.monotonic()
        lease = await counter.lease(account, 1, limit.burst, limit)
        return lease.granted, before, time.monotonic()

    emptied, earliest_begin, latest_begin = await take_tokens()
    assert emptied == limit.burst
    granted, end = 0, latest_begin
    while end < latest_begin + 1.0:
        # Lease so often that only a fraction of a token refills each time.
        await asyncio.sleep(0.0005)
        more, begin, end = await take_tokens()
        granted += more
    least = limit.rate * (begin - latest_begin - _CLOCKS)
    most = limit.rate * (end - earliest_begin + _CLOCKS)
    # The fraction of the next token is not granted yet.
    assert least - 1 <= granted <= most


async def test_a_lease_grants_available_tokens_between_its_bounds(counter: RateCounter, account: str) -> None:
    assert (await counter.lease(account, 1, 5000, SLOW)).granted == 1000
    assert (await counter.lease(account, 1, 5000, SLOW)).granted == 0


async def test_a_lease_grants_at_most_the_requested_tokens(counter: RateCounter, account: str) -> None:
    lease = await counter.lease(account, 10, 300, SLOW)
    assert (lease.granted, lease.remaining) == (300, 700)


async def test_accounts_have_separate_buckets(counter: RateCounter, account: str) -> None:
    assert (await counter.lease(account, 1000, 1000, SLOW)).granted == 1000
    assert (await counter.lease(f"{account}-other", 1000, 1000, SLOW)).granted == 1000


async def test_a_changed_limit_applies_from_the_next_lease(counter: RateCounter, account: str) -> None:
    await counter.lease(account, 1000, 1000, SLOW)
    lease = await counter.lease(account, 10, 10, RateLimit(rate=1e9, burst=50))
    if not lease.granted:
        await asyncio.sleep(0.01)
        lease = await counter.lease(account, 10, 10, RateLimit(rate=1e9, burst=50))
    assert (lease.granted, lease.remaining) == (10, 40)


async def test_one_edge_alone_has_the_whole_share(counter: RateCounter) -> None:
    assert counter.share() == 1.0


def test_at_most_rate_and_burst_are_granted_over_a_minute() -> None:
    class Clock:
        now = 5.0

        def __call__(self) -> float:
            return self.now

    async def run() -> int:
        clock = Clock()
        exact = InProcessRateCounter(clock)
        granted = 0
        for _ in range(6000):
            clock.now += 0.01
            granted += (await exact.lease("a", 7, 7, RateLimit(100, 1000))).granted
        return granted

    assert 0.999 * 7000 <= asyncio.run(run()) <= 60 * 100 + 1000
