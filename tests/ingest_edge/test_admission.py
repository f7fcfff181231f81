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
    taking.give_back("acc", 5000)
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
        least = min(least, taking._slices["acc"].tokens)

    await asyncio.gather(*(send(chance.randint(1, 150)) for _ in range(60)))
    assert least >= 0
    assert let_in + taking._slices["acc"].tokens == counter.granted


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
