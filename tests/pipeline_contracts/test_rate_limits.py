"""The token bucket under clocks that do not only go on."""

from pipeline_contracts.rate_limits import RateLimit, TokenBucket

LIMIT = RateLimit(rate=100, burst=1000)
# What a sequence of clock readings lets through, each asked for all that is there.
TRANSITIONS: dict[str, tuple[list[float], list[int]]] = {
    "goes on": ([0, 1, 3], [1000, 100, 200]),
    "set back by an hour": ([0, -3600, -3599, -3597], [1000, 0, 100, 200]),
    "set back twice": ([0, -10, -9, -20, -19], [1000, 0, 100, 0, 100]),
    "leaps ahead by a year": ([0, 31_536_000, 31_536_001], [1000, 1000, 100]),
    "leaps ahead and is set right": ([0, 3600, 1, 2], [1000, 1000, 0, 100]),
}


def test_a_bucket_fills_at_its_rate_whatever_the_clock_did() -> None:
    for name, (times, granted) in TRANSITIONS.items():
        bucket = TokenBucket(1000.0, 0.0)
        assert [bucket.take(1, 10**9, LIMIT, now).granted for now in times] == granted, name


def test_tokens_that_are_there_survive_a_clock_that_is_set_back() -> None:
    bucket = TokenBucket(600.0, 50.0)
    assert bucket.take(1, 100, LIMIT, 10.0).remaining == 500
    assert bucket.take(1, 100, LIMIT, 10.5).remaining == 450
