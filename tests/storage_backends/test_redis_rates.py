"""What only the counter in Redis does: edges that share an account, Redis that goes and comes back empty."""

import asyncio
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
from tests.support.redis_server import RedisServer, running_redis


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with or_skip(running_redis(tmp_path_factory.mktemp("rates-redis"))) as server:
        yield server


@pytest.fixture
def server(running: RedisServer) -> RedisServer:
    """Empty: the edges of another test are not counted."""
    running.restart()
    return running


async def flood(edge: Admission, account: str, limit: RateLimit, until: float) -> int:
    """Send batches of 20 as fast as they are let in; gives the events that passed."""
    passed = 0
    while time.monotonic() < until:
        try:
            await edge.take(account, 20, limit)
            passed += 20
        except RateLimited:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0)
    return passed


async def test_two_edges_share_an_account(server: RedisServer) -> None:
    limit = RateLimit(rate=5000, burst=1000)
    counters = [await open_redis_rate_counter(server.url) for _ in range(2)]
    edges = [Admission(counter, slice_seconds=0.02) for counter in counters]
    account = secrets.token_hex(6)
    begun = time.monotonic()
    # Four callers at each edge, none of whom waits for the others.
    passed = await asyncio.gather(
        *(flood(edge, account, limit, begun + 4.0) for edge in edges for _ in range(4))
    )
    took = time.monotonic() - begun
    expected = limit.rate * took + limit.burst
    print(f"{sum(passed)} events in {took:.2f} s, {sum(passed) / expected:.3f} of what is allowed")
    assert 0.9 * expected <= sum(passed) <= 1.1 * expected
    assert [counter.share() for counter in counters] == [0.5, 0.5]
    for counter in counters:
        await counter.close()


_steps = st.lists(
    st.tuples(
        st.floats(-5, 100) | st.sampled_from([0.0, 1e-6, 0.001]),
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


async def test_many_accounts_at_once_are_not_taken_for_a_redis_that_is_away(server: RedisServer) -> None:
    counter = await open_redis_rate_counter(server.url)
    limit = RateLimit(rate=1000, burst=100)
    leases = await asyncio.gather(*(counter.lease(f"a{n}", 1, 1, limit) for n in range(400)))
    assert [lease.granted for lease in leases] == [1] * 400
    assert not counter.away
    await counter.close()


async def test_before_redis_was_heard_of_the_rate_is_divided_as_expected(server: RedisServer) -> None:
    counter = await open_redis_rate_counter(server.url, expected_edges=4)
    limit = RateLimit(rate=1000, burst=100)
    server.stop()
    with pytest.raises(StorageUnavailable):
        await counter.lease("a", 1, 1, limit)
    assert (counter.share(), counter.away) == (0.25, True)
    server.start()
    await leased(counter, "a", limit)
    assert (counter.share(), counter.away) == (1.0, False)
    await counter.close()


async def leased(counter: RedisRateCounter, account: str, limit: RateLimit) -> int:
    async with asyncio.timeout(20):
        while True:
            try:
                return (await counter.lease(account, 10, 10, limit)).granted
            except StorageUnavailable:
                await asyncio.sleep(0.05)


async def test_without_redis_each_goes_on_with_its_share_and_comes_back(server: RedisServer) -> None:
    limit = RateLimit(rate=1000, burst=100)
    counters = [await open_redis_rate_counter(server.url) for _ in range(2)]
    edges = [Admission(counter, slice_seconds=0.02) for counter in counters]
    account = secrets.token_hex(6)
    # Both are counted from their first lease on, and each learns of the other at its next.
    for counter in [*counters, *counters]:
        await leased(counter, account, limit)
    server.stop()
    begun = time.monotonic()
    passed = await asyncio.gather(*(flood(edge, account, limit, begun + 2.0) for edge in edges))
    took = time.monotonic() - begun
    allowed = limit.rate * took + 2 * limit.burst
    print(f"{sum(passed)} events in {took:.2f} s without Redis")
    assert 0.7 * limit.rate * took <= sum(passed) <= allowed
    assert all(edge.fallbacks > 0 for edge in edges)
    # Nobody waits for what is known to be away.
    begun = time.monotonic()
    for _ in range(100):
        with pytest.raises(StorageUnavailable):
            await counters[0].lease(account, 1, 1, limit)
    assert time.monotonic() - begun < 10.0
    # Empty: the script is unknown there.
    server.start()
    assert [await leased(counter, f"{account}-new", limit) for counter in counters] == [10, 10]
    for counter in counters:
        await counter.close()


async def test_a_redis_that_hangs_is_away(server: RedisServer) -> None:
    counter = await open_redis_rate_counter(server.url)
    limit = RateLimit(rate=1000, burst=100)
    await counter.lease("a", 1, 1, limit)
    server.pause()
    try:
        begun = time.monotonic()
        with pytest.raises(StorageUnavailable):
            await counter.lease("a", 1, 1, limit)
        assert time.monotonic() - begun < 5.0
    finally:
        server.go_on()
    assert await leased(counter, "a", limit) == 10
    await counter.close()


async def test_a_bucket_that_nobody_asks_for_goes_by_itself(server: RedisServer) -> None:
    counter = await open_redis_rate_counter(server.url)
    account = secrets.token_hex(6)
    await counter.lease(account, 1, 1, RateLimit(rate=1000, burst=5000))
    left = await counter._connection.client.ttl(f"pharos:tokens:{account}")
    assert 0 < left <= 65
    await counter.close()
