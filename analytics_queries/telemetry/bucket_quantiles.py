"""Percentiles of values that were counted in buckets."""

from collections.abc import Sequence


def duration_quantile(buckets: Sequence[int], counts: Sequence[int], quantile: float) -> float | None:
    """Return a percentile of durations, in milliseconds. The durations were counted in the buckets of the
    projections `latency_by_hour`.

    Bucket b ends at 2^(b/8) ms. Returns None if there are no durations. The error is below 5 %.

    The computation assumes that the durations in a bucket are spread evenly on a logarithmic scale.
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
"""The bucket that counts requests without a duration."""
