"""Runs a real consumer into ClickHouse at several rates, and compares its lag with the model."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from loadtests.bench.child_process import running_child
from loadtests.bench.progress import Progress
from loadtests.simulate.consumer_model import ConsumerForecast, ConsumerLoad, forecast_consumers
from loadtests.simulate.costs import Costs

RATES = (1_000, 10_000, 30_000)
"""Numbers of events per second."""
_BATCH_EVENTS = 100


@dataclass(frozen=True, slots=True)
class CheckedLag:
    """The seconds from the log's acknowledgement of an event until the event is stored. `longest_s`: the 99th
    percentile."""

    rate: float
    mean_s: float
    longest_s: float
    predicted: ConsumerForecast


async def check_consumers(progress: Progress, seconds: float, costs: Costs) -> list[CheckedLag]:
    """Measure each of `RATES` on the embedded log, which has one partition."""
    checked = []
    for rate in RATES:
        with tempfile.TemporaryDirectory(prefix="pharos-simulate-") as folder:
            given = {"folder": folder, "per_second": rate, "batch_events": _BATCH_EVENTS, "seconds": seconds}
            async with running_child("paced_consumer", given, "loadtests.simulate") as child:
                with progress.step(f"consumer, {rate:,} events/s", None):
                    report = await child.read()
        load = ConsumerLoad(rate, _BATCH_EVENTS, partitions=1, consumers=1)
        forecast = forecast_consumers(costs.consumer, costs.insert, load)
        checked.append(CheckedLag(rate, report["mean_s"], report["longest_s"], forecast))
    return checked


def show_lags(console: Console, checked: Sequence[CheckedLag]) -> None:
    """Print the predictions next to the measurements."""
    table = Table("events/s", box=None, pad_edge=False)
    for heading in ("mean lag, s", "predicted", "longest, s", "predicted", "rows an insert, predicted"):
        table.add_column(heading, justify="right")
    for each in checked:
        predicted = each.predicted
        table.add_row(
            f"{each.rate:,.0f}",
            f"{each.mean_s:.2f}",
            f"{predicted.mean_lag_s:.2f}",
            f"{each.longest_s:.2f}",
            f"{predicted.longest_lag_s:.2f}",
            f"{predicted.rows_an_insert:,.0f}",
        )
    console.print(table)
