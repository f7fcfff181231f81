"""Defines figures: the results of measurements, each with its target."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number.

    `target` is an upper bound (`at_most`) or a lower bound (`at_least`). None if the figure has no target.
    """

    part: str
    name: str
    value: float
    unit: str
    target: float | None = None
    bound: Literal["at_most", "at_least"] = "at_most"

    @property
    def reached(self) -> bool | None:
        """Return True if the target is met. None if there is no target."""
        if self.target is None:
            return None
        # Allow for rounding errors of sums such as 0.1 + 0.2.
        slack = 1e-9 * abs(self.target)
        if self.bound == "at_most":
            return self.value <= self.target + slack
        return self.value >= self.target - slack


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this `share` (0 to 1) of the values does not exceed (nearest rank).
    NaN if there are no values."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def latency_figures(part: str, what: str, seconds: Sequence[float]) -> list[Figure]:
    """Return the p50 and the p99 of the latencies as figures in milliseconds. `seconds`: the latencies in
    seconds."""
    return [
        Figure(part, f"{what}, p50", 1000 * percentile(seconds, 0.5), "ms"),
        Figure(part, f"{what}, p99", 1000 * percentile(seconds, 0.99), "ms"),
    ]
