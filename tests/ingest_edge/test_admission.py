"""The rate limit of an account, with a simulated clock."""

import asyncio
import contextlib
import random

import pytest

from ingest_edge.admission import Admission
from pipeline_contracts.errors import PayloadTooLarge, RateLimited, StorageUnavailable
from pipeline_contracts.rate_limits import RateLimit, TokenLease
from storage_backends.rate_counter.in_process import InProcessRateCounter

LIMIT = RateLimit(rate=1000, burst=5000)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class UnreachableCounter:
    async def lease(self, account_id: str, at_least: int, at_most: int, limit: RateLimit) -> TokenLease:
        raise StorageUnavailable("away")

    def lease_now(self, account_id: str, at_least: int, at_most: int, limit: RateLimit) -> None:
        return None

    def share(self) -> float:
        return 0.5

    async def close(self) -> None:
        return None


def make_admission(clock: Clock, *, slice_seconds: float = 0.0, edges: int = 1) -> Admission:
    counter = InProcessRateCounter(clock) if edges else UnreachableCounter()
    return Admission(counter, slice_seconds=slice_seconds, clock=clock)


async def spend(admission: Admission, clock: Clock, seconds: int, events: int) -> int:
    passed = 0
    for _ in range(seconds * 100):
        clock.now += 0.01
        try:
            await admission.take("acc", events, LIMIT)
        except RateLimited:
            continue
        passed += events
    return passed


@pytest.mark.parametrize("slice_seconds", [0.0, 0.05])
async def test_admits_the_burst_and_the_rate(slice_seconds: float) -> None:
    clock = Clock()
    passed = await spend(make_admission(clock, slice_seconds=slice_seconds), clock, 60, 37)
    assert 0.98 * 65_000 <= passed <= 65_000


async def test_retry_after_of_a_refusal_is_sufficient() -> None:
    clock = Clock()
    admission = make_admission(clock)
    await admission.take("acc", 5000, LIMIT)
    with pytest.raises(RateLimited) as refused:
        await admission.take("acc", 2500, LIMIT)
    headers = refused.value.headers
    assert headers["Retry-After"] == "3"
    assert headers["RateLimit-Policy"] == '"ingest";q=5000;w=5'
    assert headers["RateLimit"] == '"ingest";r=0;t=5'
    clock.now += 3
    assert (await admission.take("acc", 2500, LIMIT))["RateLimit"] == '"ingest";r=500;t=5'


async def test_batch_over_the_burst_is_too_large() -> None:
    with pytest.raises(PayloadTooLarge):
        await make_admission(Clock()).take("acc", 5001, LIMIT)


async def test_tokens_of_an_unstored_request_are_refunded() -> None:
    admission = make_admission(Clock())
    await admission.take("acc", 5000, LIMIT)
    admission.refund("acc", 5000)
    await admission.take("acc", 5000, LIMIT)


@pytest.mark.parametrize("slice_seconds", [0.0, 1.0])
async def test_refunded_tokens_are_spent_before_new_ones_are_leased(slice_seconds: float) -> None:
    clock, limit = Clock(), RateLimit(rate=10, burst=1000)
    admission = Admission(InProcessRateCounter(clock), slice_seconds=slice_seconds, clock=clock)
    await admission.take("acc", 400, limit)
    admission.refund("acc", 400)
    await admission.take("acc", 401, limit)
    await admission.take("acc", 599, limit)
    with pytest.raises(RateLimited):
        await admission.take("acc", 1, limit)


async def test_edge_uses_its_share_while_the_counter_is_unreachable() -> None:
    clock = Clock()
    admission = make_admission(clock, edges=0)
    passed = await spend(admission, clock, 60, 10)
    assert 0.98 * 32_500 <= passed <= 32_500
    assert admission.fallbacks > 0


async def test_accounts_do_not_spend_each_others_tokens() -> None:
    admission = make_admission(Clock())
    await admission.take("a", 5000, LIMIT)
    await admission.take("b", 5000, LIMIT)


class SlowCounter(InProcessRateCounter):
    """Grants leases in the next iteration of the event loop, and counts them."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.asked = 0

    async def lease(self, account_id: str, at_least: int, at_most: int, limit: RateLimit) -> TokenLease:
        self.asked += 1
        await asyncio.sleep(0.001)
        return super().lease_now(account_id, at_least, at_most, limit)

    def lease_now(self, account_id: str, at_least: int, at_most: int, limit: RateLimit) -> None:  # type: ignore[override]
        return None


async def test_concurrent_requests_share_a_lease() -> None:
    clock = Clock()
    counter = SlowCounter(clock)
    admission = Admission(counter, slice_seconds=0.5, clock=clock)
    await asyncio.gather(*(admission.take("acc", 10, LIMIT) for _ in range(50)))
    assert counter.asked == 1


async def test_few_requests_of_a_steady_sender_find_too_few_tokens_late() -> None:
    """A request that starts on the fast path, and then has to wait for tokens, is decoded a second time on the usual
    path."""
    limit, shares = RateLimit(rate=5000, burst=50_000), {}
    for events in (1, 10, 34, 51, 75, 99, 100, 150, 300, 500):
        clock = Clock()
        admission = Admission(SlowCounter(clock), slice_seconds=0.02, clock=clock)
        at_once = in_vain = 0
        for _ in range(200):
            clock.now += events / 4000
            if admission.may_take_now("acc"):
                if admission.take_now("acc", events, limit) is not None:
                    at_once += 1
                    continue
                in_vain += 1
            await admission.take("acc", events, limit)
        shares[events] = (in_vain, at_once)
    assert {events: found for events, found in shares.items() if found[0] > 1 or found[1] < 100} == {}


async def test_account_over_its_rate_is_refused_without_a_lease_each_time() -> None:
    clock = Clock()
    counter = SlowCounter(clock)
    admission = Admission(counter, slice_seconds=0.0, clock=clock)
    await admission.take("acc", 5000, LIMIT)
    refusals = await asyncio.gather(
        *(admission.take("acc", 1000, LIMIT) for _ in range(50)), return_exceptions=True
    )
    assert {type(r) for r in refusals} == {RateLimited}
    assert counter.asked == 2
    # Fewer tokens may be available earlier, and so may tokens of another limit.
    clock.now += 0.5
    await admission.take("acc", 500, LIMIT)
    clock.now += 0.001
    await admission.take("acc", 10, RateLimit(rate=10_000, burst=5000))


async def test_canceled_request_loses_no_tokens() -> None:
    clock = Clock()
    admission = Admission(SlowCounter(clock), slice_seconds=0.0, clock=clock)
    waiting = [asyncio.create_task(admission.take("acc", 1000, LIMIT)) for _ in range(5)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    waiting[2].cancel()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert [isinstance(d, asyncio.CancelledError) for d in done] == [True, False, True, False, False]
    # Tokens that were leased for the first request are kept, or were never taken.
    await admission.take("acc", 1000, LIMIT)


async def test_tokens_leased_for_a_canceled_request_are_kept() -> None:
    clock = Clock()
    counter = SlowCounter(clock)
    admission = Admission(counter, slice_seconds=0.02, clock=clock)
    canceled = [asyncio.create_task(admission.take("acc", 1000, LIMIT)) for _ in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert counter.asked == 1
    for request in canceled:
        request.cancel()
    # The next request waits for the pending lease, and takes its tokens.
    await admission.take("acc", 1000, LIMIT)
    assert counter.asked == 1
    for _ in range(4):
        await admission.take("acc", 1000, LIMIT)
    with pytest.raises(RateLimited):
        await admission.take("acc", 1, LIMIT)


async def wait_for_pending_leases(admission: Admission) -> None:
    """Wait for leases of canceled requests."""
    asked = admission._accounts["acc"].pending_lease
    if asked is not None:
        # Runs after the callbacks that keep the tokens of the lease.
        await asyncio.wait({asked})


@pytest.mark.parametrize("turns", range(1, 9))
async def test_cancellation_at_any_point_of_a_lease_loses_no_tokens(turns: int) -> None:
    counter = UnevenCounter(random.Random(turns))
    admission = Admission(counter, slice_seconds=0.02, clock=Clock())
    request = asyncio.create_task(admission.take("acc", 1000, LIMIT))
    if turns == 8:
        await asyncio.sleep(0.01)
    for _ in range(turns):
        await asyncio.sleep(0)
    request.cancel()
    admitted = 1000 * (
        not isinstance((await asyncio.gather(request, return_exceptions=True))[0], BaseException)
    )
    await wait_for_pending_leases(admission)
    assert admitted + admission._accounts["acc"].tokens == counter.granted


async def test_flapping_counter_grants_no_burst_each_time() -> None:
    clock = Clock()
    limit = RateLimit(rate=1000, burst=10_000)
    shared = InProcessRateCounter(clock)
    edges = [
        Admission(
            FlappingCounter(shared, clock),
            slice_seconds=0.02,
            clock=clock,
        )
        for _ in range(2)
    ]
    passed = 0
    for _ in range(12_000):
        clock.now += 0.01
        for edge in edges:
            with contextlib.suppress(RateLimited):
                for _ in range(10):
                    await edge.take("acc", 37, limit)
                    passed += 37
    assert sum(edge.fallbacks for edge in edges) > 0
    # During outages, a tenth of the time, both buckets fill: those tokens may be admitted twice.
    assert 0.98 * 130_000 <= passed <= 1.12 * 130_000


class FlappingCounter:
    """A counter of two edges, unreachable for one second in ten."""

    def __init__(self, shared: InProcessRateCounter, clock: Clock) -> None:
        self._shared = shared
        self._clock = clock

    async def lease(self, account_id: str, at_least: int, at_most: int, limit: RateLimit) -> TokenLease:
        if int(self._clock()) % 10 == 9:
            raise StorageUnavailable("away")
        return await self._shared.lease(account_id, at_least, at_most, limit)

    def lease_now(self, account_id: str, at_least: int, at_most: int, limit: RateLimit) -> None:
        return None

    def share(self) -> float:
        return 0.5

    async def close(self) -> None:
        return None


@pytest.mark.parametrize("seed", range(20))
async def test_admitted_and_remaining_tokens_equal_the_leased_ones(seed: int) -> None:
    chance = random.Random(seed)
    counter = UnevenCounter(chance)
    admission = Admission(counter, slice_seconds=0.1, clock=Clock())
    admitted, least = 0, 0

    async def send(events: int) -> None:
        nonlocal admitted, least
        await asyncio.sleep(chance.random() * 0.01)
        with contextlib.suppress(RateLimited):
            await admission.take("acc", events, LIMIT)
            admitted += events
        least = min(least, admission._accounts["acc"].tokens)

    async def cancel(request: "asyncio.Task[None]") -> None:
        await asyncio.sleep(chance.random() * 0.015)
        request.cancel()

    requests = [asyncio.create_task(send(chance.randint(1, 150))) for _ in range(60)]
    await asyncio.gather(*requests, *(cancel(r) for r in requests[::5]), return_exceptions=True)
    await wait_for_pending_leases(admission)
    assert least >= 0
    assert admitted + admission._accounts["acc"].tokens == counter.granted


class UnevenCounter(InProcessRateCounter):
    """Grants leases after random delays."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(Clock())
        self._chance = chance
        self.granted = 0

    async def lease(self, account_id: str, at_least: int, at_most: int, limit: RateLimit) -> TokenLease:
        await asyncio.sleep(self._chance.random() * 0.002)
        lease = await super().lease(account_id, at_least, at_most, limit)
        self.granted += lease.granted
        return lease
