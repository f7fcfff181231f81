"""`python -m loadtests.simulate`: computes how many processes a load needs, or compares the model with real
processes."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import msgspec
import orjson
from rich.console import Console
from rich.table import Table

from loadtests.bench.child_process import ChildFailed
from loadtests.bench.command import add_json_option, run_measurements, write_results
from loadtests.bench.progress import showing_progress
from loadtests.bench.report import describe_machine
from loadtests.bench.run_length import FULL, QUICK
from loadtests.simulate.check import Checked, check_edge, show_check
from loadtests.simulate.check_consumers import CheckedLag, check_consumers, show_lags
from loadtests.simulate.costs import COSTS, Costs, read_costs
from loadtests.simulate.plan import Plan, make_plan
from tests.support.engines import EngineMissing

_RESULTS = Path("simulate-results.json")
_MOST = 1e12
_EVENTS = (1e4, 1e6, 1e8)


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < _MOST:
        raise argparse.ArgumentTypeError(f"must be a number above 0 (got {text})")
    return number


def _events(text: str) -> int:
    if not (text.isdecimal() and 0 < int(text) < _MOST):
        raise argparse.ArgumentTypeError(f"must be 1, 2, 3 and so on (got {text})")
    return int(text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.simulate",
        description="Compute how many edges, partitions, consumers and cores a load takes, from the costs that "
        "make curves has measured. With --check: run a real edge on Kafka, and a real consumer, at rates of its own "
        "next to the predictions.",
    )
    parser.add_argument("--check", action="store_true", help="compare the model with real processes")
    parser.add_argument("--quick", action="store_true", help="short runs of --check")
    parser.add_argument(
        "--events",
        type=_positive,
        action="append",
        help="events a second (may be given more than once; 10000, 1000000 and 100000000)",
    )
    parser.add_argument("--batch", type=_events, default=100, help="events of a request (100)")
    parser.add_argument("--chunk-seconds", type=_positive, default=0.5, help="PHAROS_CHUNK_SECONDS (0.5)")
    parser.add_argument(
        "--costs", type=Path, default=COSTS, help="file of measured costs, else the repository's"
    )
    add_json_option(parser, _RESULTS, "the results")
    return parser.parse_args()


def _read_costs(file: Path) -> Costs:
    try:
        return read_costs(file)
    except (OSError, msgspec.DecodeError) as error:
        sys.exit(
            f"simulate: no costs in {file} ({error}). Leave out --costs, or run make curves ARGS=--publish."
        )


def _show_plans(console: Console, plans: Sequence[Plan]) -> None:
    table = Table("", box=None, pad_edge=False)
    for plan in plans:
        table.add_column(f"{plan.events_per_second:,.0f} events/s", justify="right")
    rows: Mapping[str, Callable[[Plan], str]] = {
        "edges": lambda p: f"{p.edges:,}",
        "CPU of an edge, of one core": lambda p: f"{p.edge.utilisation:.0%}",
        "p50 / p99 of an answer, ms": lambda p: f"{p.edge.p50_ms:.1f} / {p.edge.p99_ms:.1f}",
        "partitions": lambda p: f"{p.partitions:,}",
        "consumers": lambda p: f"{p.consumers:,}",
        "CPU of a consumer, of one core": lambda p: f"{p.stored.utilisation:.0%}",
        "lag: mean / longest, s": lambda p: f"{p.stored.mean_lag_s:.2f} / {p.stored.longest_lag_s:.2f}",
        "rows of an insert": lambda p: f"{p.stored.rows_an_insert:,.0f}",
        "inserts a second": lambda p: f"{p.stored.inserts_per_second:,.1f}",
        "cores of ClickHouse, inserts and merges": lambda p: f"{p.stored.store_cores:,.2f}",
        "cores of Kafka, one copy": lambda p: f"{p.broker_cores:,.2f}",
        "MB/s into Kafka, one copy": lambda p: f"{p.log_mb_per_second:,.1f}",
    }
    for name, value in rows.items():
        table.add_row(name, *(value(plan) for plan in plans))
    console.print(table)


async def _check(costs: Costs, quick: bool) -> tuple[list[Checked], list[CheckedLag]]:
    seconds = 2.0 if quick else 8.0
    length = replace(QUICK if quick else FULL, informative_seconds=seconds)
    with showing_progress(2) as progress:
        progress.begin_part("edge")
        edges = await check_edge(progress, length, costs)
        progress.begin_part("consumer")
        return edges, await check_consumers(progress, seconds, costs)


def _show_checks(console: Console, edges: Sequence[Checked], lags: Sequence[CheckedLag]) -> None:
    show_check(console, edges)
    console.print()
    show_lags(console, lags)


def main() -> None:
    """Exit with status 0, whether or not the predictions are good. Exit with status 1 if the edge cannot be run."""
    given = _arguments()
    costs = _read_costs(given.costs)
    console = Console()
    if given.check:
        edges, lags = run_measurements("simulate", _check(costs, given.quick), ChildFailed, EngineMissing)
        document = {
            "machine": describe_machine(),
            "edges": [asdict(each) for each in edges],
            "lags": [asdict(each) for each in lags],
        }
        show = partial(_show_checks, console, edges, lags)
    else:
        events = given.events or _EVENTS
        plans = [make_plan(costs, each, given.batch, given.chunk_seconds) for each in events]
        document = {"costs": asdict(costs), "plans": [asdict(plan) for plan in plans]}
        show = partial(_show_plans, console, plans)
    write_results(
        given.json, orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE), show
    )


if __name__ == "__main__":
    main()
