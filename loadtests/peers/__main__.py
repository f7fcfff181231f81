"""`python -m loadtests.peers`: compare Pharos with the OpenTelemetry Collector and with handlers in Go and Rust."""

import argparse
from collections.abc import Collection, Iterable
from dataclasses import asdict
from pathlib import Path

import orjson
from rich.console import Console

from loadtests.bench.child_process import ChildFailed
from loadtests.bench.command import add_json_option, run_measurements, write_results
from loadtests.bench.progress import showing_progress
from loadtests.bench.report import describe_machine
from loadtests.peers.measure import CASES, Plan, Taken, measure_peers
from loadtests.peers.read_back import PeerFailed
from loadtests.peers.report import show_comparison
from loadtests.peers.servers import PEERS
from tests.support.engines import EngineMissing

_RESULTS = Path("peers-results.json")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.peers",
        description="Send the same requests to Pharos' edge, to the OpenTelemetry Collector without a queue, and to "
        "minimal handlers in Go and Rust, on one Kafka, and compare their CPU time per record. Each peer is built "
        "once, which needs Go, Rust and a C compiler. Every answered request is read back from Kafka.",
    )
    parser.add_argument("--quick", action="store_true", help="two short rounds at full speed")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, the peers in turn (5)")
    parser.add_argument("--seconds", type=float, default=8.0, help="seconds of one measurement (8)")
    parser.add_argument(
        "--rate",
        type=int,
        action="append",
        help="requests a second; 0 is full speed (may be given more than once; 0, 1000 and 3000)",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=_short_names(CASES),
        metavar="REQUEST",
        help=f"compare this kind of request (may be given more than once): {', '.join(_short_names(CASES))}",
    )
    parser.add_argument(
        "--peer",
        action="append",
        choices=_short_names(PEERS),
        metavar="PEER",
        help=f"compare this server (may be given more than once): {', '.join(_short_names(PEERS))}",
    )
    add_json_option(parser, _RESULTS, "every measurement")
    return parser.parse_args()


def _short_names(names: Iterable[str]) -> list[str]:
    """Return short names, such as `ingest-1-event` for "ingest, 1 event"."""
    return [name.lower().replace(",", "").replace(" ", "-") for name in names]


def _chosen(names: Iterable[str], short: Collection[str] | None) -> list[str]:
    return [name for name in names if short is None or _short_names([name])[0] in short]


async def _measure(plan: Plan) -> list[Taken]:
    steps = sum(
        len(plan.rates) * plan.rounds * len([peer for peer in CASES[name].peers if peer in plan.peers])
        for name in plan.cases
    )
    with showing_progress(steps) as progress:
        return [taken async for taken in measure_peers(progress, plan)]


def main() -> None:
    """Exit with status 0 if everything was measured. Exit with status 1 if a peer cannot be built, fails, or loses a
    request."""
    given = _arguments()
    plan = Plan(
        cases=_chosen(CASES, given.only),
        peers=_chosen(PEERS, given.peer),
        rates=given.rate or ([0] if given.quick else [0, 1000, 3000]),
        rounds=2 if given.quick else given.rounds,
        warm_up=1.0 if given.quick else 2.0,
        seconds=2.0 if given.quick else given.seconds,
    )
    taken = run_measurements("bench-peers", _measure(plan), ChildFailed, EngineMissing, PeerFailed)
    document = {"machine": describe_machine(), "measurements": [asdict(each) for each in taken]}
    written = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    write_results(given.json, written, lambda: show_comparison(Console(), taken))


if __name__ == "__main__":
    main()
