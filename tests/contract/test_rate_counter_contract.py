"""What every rate counter does. Another engine joins by a parameter of the fixture."""

from pipeline_contracts.rate_limits import RateLimit
from storage_backends.rate_counter.in_process import InProcessRateCounter

LIMIT = RateLimit(rate=100, burst=1000)


class Clock:
    now = 5.0

    def __call__(self) -> float:
        return self.now


async def test_a_bucket_begins_full_and_fills_at_its_rate() -> None:
    clock = Clock()
    counter = InProcessRateCounter(clock)
    assert (await counter.lease("a", 1000, 1000, LIMIT)).granted == 1000
    refused = await counter.lease("a", 50, 50, LIMIT)
    assert (refused.granted, refused.retry_after) == (0, 0.5)
    clock.now += 0.5
    assert (await counter.lease("a", 50, 50, LIMIT)).granted == 50
    assert (await counter.lease("a", 1, 1, LIMIT)).granted == 0


async def test_over_a_minute_no_more_than_rate_and_burst_pass() -> None:
    clock = Clock()
    counter = InProcessRateCounter(clock)
    granted = 0
    for _ in range(6000):
        clock.now += 0.01
        granted += (await counter.lease("a", 7, 7, LIMIT)).granted
    assert 0.999 * 7000 <= granted <= 60 * LIMIT.rate + LIMIT.burst


async def test_a_lease_gives_what_is_there_between_its_bounds() -> None:
    counter = InProcessRateCounter(Clock())
    assert (await counter.lease("a", 1, 5000, LIMIT)).granted == 1000


async def test_accounts_do_not_share() -> None:
    counter = InProcessRateCounter(Clock())
    assert (await counter.lease("a", 1000, 1000, LIMIT)).granted == 1000
    assert (await counter.lease("b", 1000, 1000, LIMIT)).granted == 1000
