"""Measures a process from outside, while load runs on one of its ports."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from loadtests.bench.figures import Figure, latency_figures
from loadtests.bench.load import MakeRequest, running_load
from loadtests.bench.process_usage import cpu_seconds
from loadtests.bench.progress import Progress


@dataclass(frozen=True, slots=True)
class Measured:
    """The results of the measured period: expected responses, other responses, and what they cost the
    process."""

    requests: int
    seconds: float
    cpu_seconds: float
    latencies: Sequence[float]
    failures: dict[str, int]
    answered: int
    """Number of all expected responses, including those before and after the measured period."""

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds

    @property
    def cpu_us(self) -> float:
        """Return the CPU time of the process per request in microseconds."""
        return 1e6 * self.cpu_seconds / self.requests if self.requests else float("nan")

    def latency(self, part: str) -> list[Figure]:
        """Return three figures: the p50 and the p99 of the latency, and the number of unexpected
        responses."""
        return [*latency_figures(part, "request", self.latencies), failure_figure(part, self.failures)]


def failure_figure(part: str, failures: dict[str, int]) -> Figure:
    """Return the number of unexpected responses as a figure. If there are any, the name of the figure
    quotes the first one."""
    first = f" ({next(iter(failures))[:80]})" if failures else ""
    return Figure(part, f"other answers{first}", sum(failures.values()), "", target=0)


async def measure_load(
    progress: Progress,
    label: str,
    pid: int,
    port: int,
    make_request: MakeRequest,
    *,
    connections: int,
    expected: int,
    warm_up: float,
    seconds: float,
    per_second: float | None = None,
) -> Measured:
    """Run load for `warm_up` seconds, then measure for `seconds`."""
    async with running_load(
        port, make_request, connections=connections, expected=expected, per_second=per_second
    ) as load:
        await progress.pass_time(f"{label}: warming up", warm_up)
        load.latencies.clear()
        answered, cpu, started = load.answered, cpu_seconds(pid), time.perf_counter()
        await progress.pass_time(f"{label}: measuring", seconds)
        requests = load.answered - answered
        used = cpu_seconds(pid) - cpu
        took = time.perf_counter() - started
        latencies = list(load.latencies)
        load.stop()
        # Wait for requests in flight: the process would count them as failures if they were cut off.
        await asyncio.sleep(0.3)
        return Measured(requests, took, used, latencies, dict(load.failures), load.answered)
