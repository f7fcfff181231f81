"""`python -m loadtests.curves`: measures what an event costs, depending on the size of everything else."""

import argparse
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rich.console import Console

from loadtests.bench.child_process import ChildFailed
from loadtests.bench.command import add_json_option, run_measurements, write_results
from loadtests.bench.progress import Progress, showing_progress
from loadtests.bench.report import describe_machine
from loadtests.bench.run_length import FULL, QUICK, RunLength
from loadtests.curves import consumer_curves, edge_curves
from loadtests.curves.heartbeat_curves import measure_heartbeats
from loadtests.curves.plots import draw_pictures
from loadtests.curves.points import Point, Results, encode_results, keep_other_parts, read_results
from loadtests.curves.report import show_curves
from loadtests.curves.stored_rows import measure_receipts, measure_stored_rows
from loadtests.simulate.calibrate import calibrate
from loadtests.simulate.costs import COSTS, write_costs
from tests.support.engines import EngineMissing

_RESULTS = Path("curves-results.json")
_IMAGES = Path("docs/images")
_PUBLISHED = Path(__file__).with_name("published.json")
# Each point of a curve is a measurement. A run has more of them than `make bench`, and they are shorter.
_FULL = replace(FULL, warm_up=1.5, seconds=5.0, informative_seconds=8.0, consumer_events=200_000)
_QUICK = replace(QUICK, consumer_events=20_000)
_VIEWS = 100_000_000
_QUICK_VIEWS = 100_000
_RECEIPTS = (100_000, 1_000_000, 10_000_000)

_Part = Callable[[Progress, RunLength], Awaitable[list[Point]]]


def _parts(quick: bool, views: int) -> Mapping[str, _Part]:
    return {
        "edge-batches": edge_curves.measure_batches,
        "edge-keys": edge_curves.measure_keys,
        "edge-partitions": edge_curves.measure_partitions,
        "edge-rates": edge_curves.measure_rates,
        "consumer-partitions": consumer_curves.measure_partitions,
        "consumer-batches": consumer_curves.measure_batches,
        "inserts": consumer_curves.measure_inserts,
        "heartbeats": measure_heartbeats,
        "receipts": partial(measure_receipts, sizes=_RECEIPTS[:1] if quick else _RECEIPTS),
        "page-views": partial(measure_stored_rows, largest=_QUICK_VIEWS if quick else views),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.curves",
        description="Measure the CPU time (user and system) of an event against sizes of batches, keys, accounts, "
        "partitions, stored rows, sites and heartbeats. A curve is flat, or "
        "docs/operations/performance.md explains it. The edge runs with the accelerator, which is "
        "built once and needs Rust.",
    )
    parser.add_argument("--quick", action="store_true", help="short measurements, and small stores")
    parser.add_argument(
        "--only",
        action="append",
        choices=list(_parts(quick=False, views=_VIEWS)),
        help="measure this part, and keep the others of an existing file (may be given more than once)",
    )
    parser.add_argument(
        "--views", type=int, default=_VIEWS, help=f"page views of the largest store ({_VIEWS:,})"
    )
    parser.add_argument("--draw", action="store_true", help="measure nothing: show the existing file again")
    parser.add_argument(
        "--publish",
        action="store_true",
        help=f"also draw the curves into {_IMAGES}, and keep the points ({_PUBLISHED.name}) and the costs that make "
        f"simulate reads ({COSTS.name})",
    )
    add_json_option(parser, _RESULTS, "every point")
    return parser.parse_args()


async def _measure(parts: Mapping[str, _Part], length: RunLength) -> dict[str, list[Point]]:
    points = {}
    with showing_progress(len(parts)) as progress:
        for name, measure in parts.items():
            progress.begin_part(name)
            points[name] = await measure(progress, length)
            progress.end_part()
    return points


def _results(given: argparse.Namespace) -> Results:
    if given.draw:
        try:
            return read_results(Path(given.json))
        except OSError as error:
            sys.exit(f"curves: {error}. Measure first, or give the published points: --json {_PUBLISHED}")
    parts = _parts(given.quick, given.views)
    names = given.only or list(parts)
    measured = _measure({name: parts[name] for name in names}, _QUICK if given.quick else _FULL)
    points = run_measurements("curves", measured, ChildFailed, EngineMissing)
    today = datetime.now(UTC).date().isoformat()
    results = Results(today, describe_machine(), given.quick, points)
    return keep_other_parts(results, Path(given.json)) if given.only and given.json != "-" else results


def main() -> None:
    """Exit with status 0 if everything was measured, and with status 1 if a part could not be measured."""
    given = _arguments()
    results = _results(given)
    write_results(given.json, encode_results(results), lambda: show_curves(Console(), results))
    if given.publish:
        _PUBLISHED.write_bytes(encode_results(results))
        files = [*draw_pictures(results, _IMAGES), _PUBLISHED, write_costs(calibrate(results))]
        print("Written to", ", ".join(map(str, files)))


if __name__ == "__main__":
    main()
