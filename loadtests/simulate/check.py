"""Runs a real edge on Kafka at several rates, and compares the edge with the model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.table import Table

from loadtests.bench.edge import fresh_edge, measure_requests, production
from loadtests.bench.figures import percentile
from loadtests.bench.ingest_requests import ingest_requests
from loadtests.bench.on_kafka import running_engines
from loadtests.bench.progress import Progress
from loadtests.bench.run_length import RunLength
from loadtests.simulate.costs import Costs
from loadtests.simulate.edge_model import EdgeForecast, EdgeLoad, simulate_edge
from tests.support.accelerator import build_accelerator

_CONNECTIONS = 64
LOADS = ((1, 500), (1, 1000), (1, 2000), (1, 4000), (100, 250), (100, 500), (100, 1000))
"""Number of events in a request, and number of requests per second."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What a run measured, and what the model predicted for it. Utilisation is a share of one core.
    Times are milliseconds."""

    events: int
    rate: float
    reached: float
    """Number of responses per second."""
    utilisation: float
    p50_ms: float
    p99_ms: float
    predicted: EdgeForecast


async def check_edge(progress: Progress, length: RunLength, costs: Costs) -> list[Checked]:
    """Measure each of `LOADS` on an edge of its own. The edges use the accelerator, as for the
    curves."""
    checked = []
    async with running_engines(progress) as (kafka, redis):
        engines = production(kafka.bootstrap, redis.url)
        engines = replace(engines, accelerator=str(build_accelerator().parent))
        for events, rate in LOADS:
            async with fresh_edge(engines) as edge:
                measured = await measure_requests(
                    progress,
                    f"{rate:,} requests/s of {events} events",
                    edge,
                    ingest_requests(edge.ingest_key, events),
                    _CONNECTIONS,
                    length,
                    rate,
                )
            checked.append(
                Checked(
                    events,
                    rate,
                    measured.per_second,
                    measured.cpu_seconds / measured.seconds,
                    1e3 * percentile(measured.latencies, 0.5),
                    1e3 * percentile(measured.latencies, 0.99),
                    simulate_edge(costs.edge, EdgeLoad(rate, events)),
                )
            )
    return checked


def show_check(console: Console, checked: Sequence[Checked]) -> None:
    """Print the predictions next to the measurements, and the error of the predicted CPU time."""
    table = Table("Events a request", box=None, pad_edge=False)
    for heading in ("requests/s", "answered/s", "CPU", "predicted", "error", "p50 ms", "predicted"):
        table.add_column(heading, justify="right")
    for heading in ("p99 ms", "predicted"):
        table.add_column(heading, justify="right")
    for each in checked:
        predicted = each.predicted
        table.add_row(
            str(each.events),
            f"{each.rate:,.0f}",
            f"{each.reached:,.0f}",
            f"{each.utilisation:.0%}",
            f"{predicted.utilisation:.0%}",
            f"{predicted.utilisation / each.utilisation - 1:+.0%}",
            f"{each.p50_ms:.1f}",
            f"{predicted.p50_ms:.1f}",
            f"{each.p99_ms:.1f}",
            f"{predicted.p99_ms:.1f}",
        )
    console.print(table)
