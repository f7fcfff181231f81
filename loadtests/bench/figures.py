"""What a measurement gives: figures, each with the target it is held against."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number.

    `target` is the most that is wanted (`at_most`) or the least (`at_least`); None where the figure only informs.
    """

    part: str
    name: str
    value: float
    unit: str
    target: float | None = None
    bound: Literal["at_most", "at_least"] = "at_most"

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached; None without one."""
        if self.target is None:
            return None
        # A sum of 0.1s that misses by its last bit has not missed.
        slack = 1e-9 * abs(self.target)
        if self.bound == "at_most":
            return self.value <= self.target + slack
        return self.value >= self.target - slack


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` (0 to 1) of the values do not exceed (nearest rank); NaN of none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def latency_figures(part: str, what: str, seconds: Sequence[float]) -> list[Figure]:
    """p50 and p99 of latencies given in seconds, in milliseconds."""
    return [
        Figure(part, f"{what}, p50", 1000 * percentile(seconds, 0.5), "ms"),
        Figure(part, f"{what}, p99", 1000 * percentile(seconds, 0.99), "ms"),
    ]
