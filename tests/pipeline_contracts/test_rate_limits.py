"""The token bucket, including clocks that jump."""

from pipeline_contracts.rate_limits import RateLimit, TokenBucket

LIMIT = RateLimit(rate=100, burst=1000)
# Readings of the clock, and the tokens that the bucket grants at each if all are requested.
CLOCKS: dict[str, tuple[list[float], list[int]]] = {
    "steady": ([0, 1, 3], [1000, 100, 200]),
    "set back by an hour": ([0, -3600, -3599, -3597], [1000, 0, 100, 200]),
    "set back twice": ([0, -10, -9, -20, -19], [1000, 0, 100, 0, 100]),
    "jumps ahead by a year": ([0, 31_536_000, 31_536_001], [1000, 1000, 100]),
    "jumps ahead and is corrected": ([0, 3600, 1, 2], [1000, 1000, 0, 100]),
}


def test_bucket_fills_at_its_rate_under_any_clock() -> None:
    for name, (times, granted) in CLOCKS.items():
        bucket = TokenBucket(1000.0, 0.0)
        assert [bucket.take(1, 10**9, LIMIT, now).granted for now in times] == granted, name


def test_tokens_survive_a_clock_that_is_set_back() -> None:
    bucket = TokenBucket(600.0, 50.0)
    assert bucket.take(1, 100, LIMIT, 10.0).remaining == 500
    assert bucket.take(1, 100, LIMIT, 10.5).remaining == 450
