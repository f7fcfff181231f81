"""What an account may send, with a clock that is moved by hand."""

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


class AwayCounter:
    async def lease(self, account_id: str, at_least: int, at_most: int, limit: RateLimit) -> TokenLease:
        raise StorageUnavailable("away")

    def share(self) -> float:
        return 0.5

    async def close(self) -> None:
        return None


def admission(clock: Clock, *, slice_seconds: float = 0.0, edges: int = 1) -> Admission:
    counter = InProcessRateCounter(clock) if edges else AwayCounter()
    return Admission(counter, slice_seconds=slice_seconds, clock=clock)


async def spend(taking: Admission, clock: Clock, seconds: int, events: int) -> int:
    passed = 0
    for _ in range(seconds * 100):
        clock.now += 0.01
        try:
            await taking.take("acc", events, LIMIT)
        except RateLimited:
            continue
        passed += events
    return passed


@pytest.mark.parametrize("slice_seconds", [0.0, 0.05])
async def test_what_passes_is_the_rate_and_the_burst(slice_seconds: float) -> None:
    clock = Clock()
    passed = await spend(admission(clock, slice_seconds=slice_seconds), clock, 60, 37)
    assert 0.98 * 65_000 <= passed <= 65_000


async def test_a_refusal_says_when_to_come_back_and_the_time_holds() -> None:
    clock = Clock()
    taking = admission(clock)
    await taking.take("acc", 5000, LIMIT)
    with pytest.raises(RateLimited) as refused:
        await taking.take("acc", 2500, LIMIT)
    headers = refused.value.headers
    assert headers["Retry-After"] == "3"
    assert headers["RateLimit-Policy"] == '"ingest";q=5000;w=5'
    assert headers["RateLimit"] == '"ingest";r=0;t=5'
    clock.now += 3
    assert (await taking.take("acc", 2500, LIMIT))["RateLimit"] == '"ingest";r=500;t=5'


async def test_more_than_the_bucket_ever_holds_is_too_large() -> None:
    with pytest.raises(PayloadTooLarge):
        await admission(Clock()).take("acc", 5001, LIMIT)


async def test_tokens_of_a_request_that_was_not_stored_come_back() -> None:
    taking = admission(Clock())
    await taking.take("acc", 5000, LIMIT)
    taking.refund("acc", 5000)
    await taking.take("acc", 5000, LIMIT)


async def test_with_the_counter_away_the_edge_goes_on_with_its_share() -> None:
    clock = Clock()
    taking = admission(clock, edges=0)
    passed = await spend(taking, clock, 60, 10)
    assert 0.98 * 32_500 <= passed <= 32_500
    assert taking.fallbacks > 0


async def test_accounts_do_not_spend_each_others_tokens() -> None:
    taking = admission(Clock())
    await taking.take("a", 5000, LIMIT)
    await taking.take("b", 5000, LIMIT)


class SlowCounter(InProcessRateCounter):
    """Answers a turn of the loop later, and counts how often it is asked."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.asked = 0

    async def lease(self, account_id: str, at_least: int, at_most: int, limit: RateLimit) -> TokenLease:
        self.asked += 1
        await asyncio.sleep(0.001)
        return await super().lease(account_id, at_least, at_most, limit)


async def test_requests_beside_each_other_share_a_lease() -> None:
    clock = Clock()
    counter = SlowCounter(clock)
    taking = Admission(counter, slice_seconds=0.5, clock=clock)
    await asyncio.gather(*(taking.take("acc", 10, LIMIT) for _ in range(50)))
    assert counter.asked == 1


async def test_an_account_that_is_over_its_rate_is_refused_without_asking_each_time() -> None:
    clock = Clock()
    counter = SlowCounter(clock)
    taking = Admission(counter, slice_seconds=0.0, clock=clock)
    await taking.take("acc", 5000, LIMIT)
    refusals = await asyncio.gather(
        *(taking.take("acc", 1000, LIMIT) for _ in range(50)), return_exceptions=True
    )
    assert {type(r) for r in refusals} == {RateLimited}
    assert counter.asked == 2
    # Fewer may be there sooner, and so may another limit.
    clock.now += 0.5
    await taking.take("acc", 500, LIMIT)
    clock.now += 0.001
    await taking.take("acc", 10, RateLimit(rate=10_000, burst=5000))


async def test_a_request_that_is_given_up_takes_nothing_along() -> None:
    clock = Clock()
    taking = Admission(SlowCounter(clock), slice_seconds=0.0, clock=clock)
    waiting = [asyncio.create_task(taking.take("acc", 1000, LIMIT)) for _ in range(5)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    waiting[2].cancel()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert [isinstance(d, asyncio.CancelledError) for d in done] == [True, False, True, False, False]
    # What was leased for the first one, if anything, lies in the slice or was never taken.
    await taking.take("acc", 1000, LIMIT)


async def test_tokens_that_come_for_a_request_that_was_given_up_go_into_the_slice() -> None:
    clock = Clock()
    counter = SlowCounter(clock)
    taking = Admission(counter, slice_seconds=0.02, clock=clock)
    given_up = [asyncio.create_task(taking.take("acc", 1000, LIMIT)) for _ in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert counter.asked == 1
    for request in given_up:
        request.cancel()
    # The one behind them waits for what was asked for already, and takes that.
    await taking.take("acc", 1000, LIMIT)
    assert counter.asked == 1
    for _ in range(4):
        await taking.take("acc", 1000, LIMIT)
    with pytest.raises(RateLimited):
        await taking.take("acc", 1, LIMIT)


async def until_nothing_is_asked(taking: Admission) -> None:
    """What was asked for a request that was given up may still come."""
    asked = taking._accounts["acc"].pending_lease
    if asked is not None:
        # Told after those who put into the slice what it has brought.
        await asyncio.wait({asked})


@pytest.mark.parametrize("turns", range(1, 9))
async def test_a_request_may_be_given_up_at_any_moment_of_its_lease(turns: int) -> None:
    counter = UnevenCounter(random.Random(turns))
    taking = Admission(counter, slice_seconds=0.02, clock=Clock())
    request = asyncio.create_task(taking.take("acc", 1000, LIMIT))
    if turns == 8:
        await asyncio.sleep(0.01)
    for _ in range(turns):
        await asyncio.sleep(0)
    request.cancel()
    let_in = 1000 * (
        not isinstance((await asyncio.gather(request, return_exceptions=True))[0], BaseException)
    )
    await until_nothing_is_asked(taking)
    assert let_in + taking._accounts["acc"].tokens == counter.granted


async def test_a_counter_that_comes_and_goes_gives_no_burst_each_time() -> None:
    clock = Clock()
    limit = RateLimit(rate=1000, burst=10_000)
    shared = InProcessRateCounter(clock)
    edges = [
        Admission(
            ComingAndGoing(shared, clock),
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
    # Away for a tenth of the time, in which both buckets fill: that tenth may pass twice.
    assert 0.98 * 130_000 <= passed <= 1.12 * 130_000


class ComingAndGoing:
    """A counter of two edges, away for one second in ten."""

    def __init__(self, shared: InProcessRateCounter, clock: Clock) -> None:
        self._shared = shared
        self._clock = clock

    async def lease(self, account_id: str, at_least: int, at_most: int, limit: RateLimit) -> TokenLease:
        if int(self._clock()) % 10 == 9:
            raise StorageUnavailable("away")
        return await self._shared.lease(account_id, at_least, at_most, limit)

    def share(self) -> float:
        return 0.5

    async def close(self) -> None:
        return None


@pytest.mark.parametrize("seed", range(20))
async def test_what_is_let_in_and_what_is_left_is_what_was_leased(seed: int) -> None:
    chance = random.Random(seed)
    counter = UnevenCounter(chance)
    taking = Admission(counter, slice_seconds=0.1, clock=Clock())
    let_in, least = 0, 0

    async def send(events: int) -> None:
        nonlocal let_in, least
        await asyncio.sleep(chance.random() * 0.01)
        with contextlib.suppress(RateLimited):
            await taking.take("acc", events, LIMIT)
            let_in += events
        least = min(least, taking._accounts["acc"].tokens)

    async def give_up(request: "asyncio.Task[None]") -> None:
        await asyncio.sleep(chance.random() * 0.015)
        request.cancel()

    requests = [asyncio.create_task(send(chance.randint(1, 150))) for _ in range(60)]
    await asyncio.gather(*requests, *(give_up(r) for r in requests[::5]), return_exceptions=True)
    await until_nothing_is_asked(taking)
    assert least >= 0
    assert let_in + taking._accounts["acc"].tokens == counter.granted


class UnevenCounter(InProcessRateCounter):
    """Answers after a while, now a longer and now a shorter one."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(Clock())
        self._chance = chance
        self.granted = 0

    async def lease(self, account_id: str, at_least: int, at_most: int, limit: RateLimit) -> TokenLease:
        await asyncio.sleep(self._chance.random() * 0.002)
        lease = await super().lease(account_id, at_least, at_most, limit)
        self.granted += lease.granted
        return lease
