"""Behaviour of the counter in Redis only: edges that share an account, and a Redis that stops and returns empty."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest_edge.admission import Admission
from pipeline_contracts.errors import RateLimited, StorageUnavailable
from pipeline_contracts.rate_limits import RateLimit, TokenBucket, TokenLease
from storage_backends.rate_counter.redis import RedisRateCounter, open_redis_rate_counter
from tests.support.engines import or_skip
from tests.support.redis_server import RedisServer, hasty_redis, recorded_attempts, running_redis
from tests.support.waits import measure_loop_time


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with or_skip(running_redis(tmp_path_factory.mktemp("rates-redis"))) as server:
        yield server


@pytest.fixture
def server(running: RedisServer) -> RedisServer:
    """Return an empty Redis, so that edges of another test do not count."""
    running.restart()
    return running


class Clock:
    """A clock that only the test advances: tokens that refill while the machine is suspended would be lost."""

    def __init__(self) -> None:
        self.now = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now

    def rule(self, counter: RedisRateCounter) -> None:
        """Make the counter's script use this clock instead of the clock of Redis."""
        take = counter._take

        def take_now(keys: list[str], args: list[Any]) -> Any:
            return take(keys=keys, args=[*args, repr(self.now)])

        counter._take = take_now  # type: ignore[assignment]


_STEP_SECONDS = 0.005


async def flood(clock: Clock, edges: list[Admission], account: str, limit: RateLimit, seconds: float) -> int:
    """Send batches of 20 from this many callers, as fast as they are accepted; return the number of accepted events."""
    passed = 0

    async def send(edge: Admission) -> None:
        nonlocal passed
        with contextlib.suppress(RateLimited):
            while True:
                await edge.take(account, 20, limit)
                passed += 20

    for _ in range(round(seconds / _STEP_SECONDS)):
        # None of them waits for the others.
        await asyncio.gather(*(send(edge) for edge in edges))
        clock.now += _STEP_SECONDS
    return passed


async def test_two_edges_share_an_account(server: RedisServer) -> None:
    limit = RateLimit(rate=5000, burst=1000)
    clock = Clock()
    counters = [await open_redis_rate_counter(server.url) for _ in range(2)]
    for counter in counters:
        clock.rule(counter)
    edges = [Admission(counter, slice_seconds=0.02, clock=clock) for counter in counters]
    account = secrets.token_hex(6)
    # Four callers at each edge.
    passed = await flood(clock, edges * 4, account, limit, 4.0)
    expected = limit.rate * 4.0 + limit.burst
    print(f"{passed} events in 4 s, {passed / expected:.3f} of what is allowed")
    assert 0.9 * expected <= passed <= 1.1 * expected
    assert [counter.share() for counter in counters] == [0.5, 0.5]
    for counter in counters:
        await counter.close()


async def test_tokens_refill_by_the_clock_of_redis(server: RedisServer) -> None:
    counter = await open_redis_rate_counter(server.url)
    limit = RateLimit(rate=100, burst=200)
    account = secrets.token_hex(6)
    started = time.monotonic()
    assert (await counter.lease(account, 200, 200, limit)).granted == 200
    async with asyncio.timeout(60):
        while not (lease := await counter.lease(account, 150, 150, limit)).granted:
            assert 0 < lease.retry_after <= 1.5
            await asyncio.sleep(lease.retry_after)
    # Exactly the tokens that refill in this time.
    took = time.monotonic() - started
    assert lease.granted + lease.remaining <= limit.rate * took + 1
    await counter.close()


_steps = st.lists(
    st.tuples(
        st.floats(-5, 100) | st.floats(-1e6, 1e6) | st.sampled_from([0.0, 1e-6, 0.001]),
        st.integers(1, 2000),
        st.integers(0, 2000),
        st.sampled_from([RateLimit(0.3, 10), RateLimit(1 / 3, 1000), RateLimit(5000.5, 2000)]),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(steps=_steps)
async def test_the_script_counts_as_the_token_bucket_does(running: RedisServer, steps: list[Any]) -> None:
    counter = await open_redis_rate_counter(running.url)
    key, now = f"pharos:tokens:{secrets.token_hex(8)}", 1_790_000_000.0
    bucket: TokenBucket | None = None
    for elapsed, at_least, more, limit in steps:
        now += elapsed
        bucket = bucket or TokenBucket(float(limit.burst), now)
        arguments = [at_least, at_least + more, repr(limit.rate), limit.burst, "edge", 5, repr(now)]
        granted, remaining, wait, _ = await counter._take(keys=[key, f"{key}:edges"], args=arguments)
        expected = bucket.take(at_least, at_least + more, limit, now)
        assert TokenLease(granted, remaining, float(wait)) == expected
    await counter.close()


async def test_a_bucket_keeps_refilling_after_a_failover_to_a_slower_clock(
    server: RedisServer,
) -> None:
    limit, clock, account = RateLimit(rate=100, burst=1000), Clock(), secrets.token_hex(6)
    edge, stopped_edge = [await open_redis_rate_counter(server.url) for _ in range(2)]
    for counter in (edge, stopped_edge):
        clock.rule(counter)
    assert await leased(stopped_edge, account, limit) == 10
    assert (await edge.lease(account, 1, 1000, limit)).granted == 990
    assert edge.share() == 0.5
    clock.now -= 3600
    refused = await edge.lease(account, 1, 1000, limit)
    assert (refused.granted, refused.retry_after) == (0, 0.01)
    clock.now += 1
    assert (await edge.lease(account, 1, 1000, limit)).granted == 100
    # An edge that was last seen at a later time than the clock shows has no share.
    assert edge.share() == 1.0
    # A leap ahead adds at most one burst; then the normal rate applies.
    clock.now += 7200
    assert (await edge.lease(account, 1, 10**6, limit)).granted == 1000
    clock.now += 1
    assert (await edge.lease(account, 1, 10**6, limit)).granted == 100
    for counter in (edge, stopped_edge):
        await counter.close()


async def test_many_concurrent_accounts_do_not_look_like_an_unavailable_redis(server: RedisServer) -> None:
    counter = await open_redis_rate_counter(server.url)
    limit = RateLimit(rate=1000, burst=100)
    leases = await asyncio.gather(*(counter.lease(f"a{n}", 1, 1, limit) for n in range(400)))
    assert [lease.granted for lease in leases] == [1] * 400
    assert not counter.is_away
    await counter.close()


async def test_the_rate_is_divided_by_expected_edges_before_redis_responds(server: RedisServer) -> None:
    counter = await open_redis_rate_counter(server.url, expected_edges=4)
    limit = RateLimit(rate=1000, burst=100)
    server.stop()
    with pytest.raises(StorageUnavailable):
        await counter.lease("a", 1, 1, limit)
    assert (counter.share(), counter.is_away) == (0.25, True)
    server.start()
    await leased(counter, "a", limit)
    assert (counter.share(), counter.is_away) == (1.0, False)
    await counter.close()


async def leased(counter: RedisRateCounter, account: str, limit: RateLimit) -> int:
    async with asyncio.timeout(60):
        while True:
            try:
                return (await counter.lease(account, 10, 10, limit)).granted
            except StorageUnavailable:
                await asyncio.sleep(0.05)


async def test_without_redis_each_edge_uses_its_share_until_redis_returns(server: RedisServer) -> None:
    limit = RateLimit(rate=1000, burst=100)
    clock = Clock()
    counters = [await open_redis_rate_counter(server.url) for _ in range(2)]
    for counter in counters:
        clock.rule(counter)
    edges = [Admission(counter, slice_seconds=0.02, clock=clock) for counter in counters]
    account = secrets.token_hex(6)
    # Each edge counts from its first lease on, and each finds out about the other at its next lease.
    for counter in [*counters, *counters]:
        await leased(counter, account, limit)
    server.stop()
    passed = await flood(clock, edges, account, limit, 2.0)
    print(f"{passed} events in 2 s without Redis")
    assert 0.7 * limit.rate * 2.0 <= passed <= limit.rate * 2.0 + 2 * limit.burst
    assert all(edge.fallbacks > 0 for edge in edges)
    # While Redis is unavailable, only one call at a time waits for it.
    with recorded_attempts(counters[0]._connection) as tries:
        for _ in range(100):
            with pytest.raises(StorageUnavailable):
                await counters[0].lease(account, 1, 1, limit)
    assert len(tries) <= 1
    # Empty: Redis does not know the script.
    server.start()
    assert [await leased(counter, f"{account}-new", limit) for counter in counters] == [10, 10]
    for counter in counters:
        await counter.close()


async def test_a_redis_that_hangs_counts_as_unavailable(server: RedisServer) -> None:
    # With the product's short timeouts.
    with hasty_redis():
        counter = await open_redis_rate_counter(server.url)
    limit = RateLimit(rate=1000, burst=100)
    await leased(counter, "a", limit)
    server.pause()
    try:
        async with measure_loop_time() as had:
            with pytest.raises(StorageUnavailable):
                await counter.lease("a", 1, 1, limit)
            assert had() < 5.0
    finally:
        server.resume()
    assert await leased(counter, "a", limit) == 10
    await counter.close()


async def test_an_unused_bucket_expires(server: RedisServer) -> None:
    counter = await open_redis_rate_counter(server.url)
    account = secrets.token_hex(6)
    await counter.lease(account, 1, 1, RateLimit(rate=1000, burst=5000))
    left = await counter._connection.client.ttl(f"pharos:tokens:{account}")
    assert 0 < left <= 65
    await counter.close()
