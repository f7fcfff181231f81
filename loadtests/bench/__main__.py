"""`python -m loadtests.bench`: measure every part and print the figures next to their targets."""

import argparse
from collections.abc import Awaitable, Callable
from pathlib import Path

from rich.console import Console

from loadtests.bench.child_process import ChildFailed
from loadtests.bench.collect import measure_collect_consumer, measure_collect_edge
from loadtests.bench.command import add_json_option, run_measurements, write_results
from loadtests.bench.consumer import measure_clickhouse, measure_consumer
from loadtests.bench.dashboard_reads import measure_dashboard_reads
from loadtests.bench.deploy_reads import measure_deploy_reads
from loadtests.bench.edge import measure_edge
from loadtests.bench.figures import Figure
from loadtests.bench.on_kafka import measure_consumer_on_kafka, measure_edge_on_kafka
from loadtests.bench.otlp import measure_heartbeats, measure_otlp_consumer, measure_otlp_edge
from loadtests.bench.progress import Progress, showing_progress
from loadtests.bench.report import describe_machine, show_table, to_json
from loadtests.bench.run_length import FULL, QUICK, RunLength
from loadtests.bench.telemetry_reads import measure_telemetry_reads
from loadtests.bench.whole import measure_whole

_RESULTS = Path("bench-results.json")
_PARTS: dict[str, Callable[[Progress, RunLength], Awaitable[list[Figure]]]] = {
    "edge": measure_edge,
    "edge-kafka": measure_edge_on_kafka,
    "consumer": measure_consumer,
    "consumer-kafka": measure_consumer_on_kafka,
    "clickhouse": measure_clickhouse,
    "otlp-edge": measure_otlp_edge,
    "otlp-consumer": measure_otlp_consumer,
    "collect-edge": measure_collect_edge,
    "collect-consumer": measure_collect_consumer,
    "heartbeats": measure_heartbeats,
    "deploy-reads": measure_deploy_reads,
    "telemetry-reads": measure_telemetry_reads,
    "dashboard-reads": measure_dashboard_reads,
    "whole": measure_whole,
}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.bench",
        description="Measure each part of Pharos on this machine: events a second, CPU time an event, latencies "
        "and memory, next to their targets. CPU time is user and system time; MB are 2^20 bytes.",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="short measurements, about six minutes (otherwise about an hour, half of it to fill a column store)",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=list(_PARTS),
        help="measure this part (may be given more than once)",
    )
    add_json_option(parser, _RESULTS, "the figures")
    return parser.parse_args()


async def _measure(names: list[str], length: RunLength) -> list[Figure]:
    figures: list[Figure] = []
    with showing_progress(len(names)) as progress:
        for name in names:
            progress.begin_part(name)
            figures += await _PARTS[name](progress, length)
            progress.end_part()
    return figures


def main() -> None:
    """Exit with status 0 if everything was measured, whether or not the targets are met. Exit with status 1 if a
    part could not be measured."""
    arguments = _arguments()
    names = [name for name in _PARTS if arguments.only is None or name in arguments.only]
    figures = run_measurements("bench", _measure(names, QUICK if arguments.quick else FULL), ChildFailed)
    machine = describe_machine()
    document = to_json(figures, machine, arguments.quick)
    write_results(arguments.json, document, lambda: show_table(Console(), figures, machine))


if __name__ == "__main__":
    main()
