"""Percentiles of values that were counted in buckets."""

import math
from collections.abc import Sequence


def bucket_quantile(bounds: Sequence[float], counts: Sequence[float], quantile: float) -> float | None:
    """Return the value below which this share of the values lies, or None without values.

    A bucket holds the values up to its bound and above the bound before; values are taken to be spread evenly in it,
    as Prometheus' `histogram_quantile` does. The first bucket begins at 0, or at its bound if that is negative; the
    value in a bucket without an upper bound is its lower one. `bounds` are ascending. A count may be negative where
    buckets of other bounds were subtracted.
    """
    totals: list[float] = []
    total = 0.0
    highest = 0.0
    for count in counts:
        total += count
        highest = max(highest, total)
        totals.append(highest)
    if not totals or highest <= 0:
        return None
    rank = quantile * highest
    place = next(number for number, reached in enumerate(totals) if reached >= rank and reached > 0)
    below = totals[place - 1] if place else 0.0
    upper = bounds[place]
    lower = bounds[place - 1] if place else min(0.0, upper)
    if math.isinf(upper):
        return lower if place else None
    inside = totals[place] - below
    return upper if inside <= 0 else lower + (upper - lower) * (rank - below) / inside


def duration_quantile(buckets: Sequence[int], counts: Sequence[int], quantile: float) -> float | None:
    """Return a percentile in milliseconds of durations in the buckets of the projections `latency_by_hour`.

    Bucket b ends at 2^(b/8) ms. None without durations. The error is below 5 %.

    Durations are taken to be spread evenly on a logarithmic scale.
    """
    pairs = sorted(
        (bucket, count) for bucket, count in zip(buckets, counts, strict=True) if bucket > NO_DURATION
    )
    total = sum(count for _, count in pairs)
    if not total:
        return None
    rank = quantile * total
    below = 0
    for bucket, count in pairs:
        if below + count >= rank:
            return float(2 ** ((bucket - 1 + (rank - below) / count) / 8))
        below += count
    return float(2 ** (pairs[-1][0] / 8))


NO_DURATION = -1000
"""The bucket of requests without a duration."""
