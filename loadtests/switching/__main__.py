"""`make switching`: deploys, rolls back, promotes, scales, breaks, kills and wakes an application under load."""

import argparse
import asyncio
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from loadtests.bench.progress import Progress, showing_progress
from loadtests.switching.fronts import FRONTS, SwitchingFailed
from loadtests.switching.operations import OPERATIONS, Operation
from loadtests.switching.report import describe, show_table
from loadtests.switching.steady_load import FULL, Pace
from loadtests.switching.tour import run_tour
from loadtests.switching.verdict import Verdict


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m loadtests.switching", description=__doc__)
    parser.add_argument(
        "--per-second", type=float, default=FULL.per_second, help="requests a second (%(default)g)"
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=[one.name for one in OPERATIONS],
        help="do this under load (may be given more than once)",
    )
    parser.add_argument(
        "--front",
        action="append",
        choices=list(FRONTS),
        help="what carries the requests: the platform's own proxy (pharos), that behind a Caddy (gateway), or a Caddy "
        "that the platform tells its hosts (caddy); may be given more than once (all where Caddy is installed)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


def main() -> int:
    """Return exit status 0 if no request failed. Return 1 if a request failed, or if an operation did not end as
    expected."""
    arguments = _arguments()
    try:
        verdicts = asyncio.run(_measure(arguments))
    except (SwitchingFailed, AssertionError) as error:
        print(f"switching: {error}", file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps({"operations": [describe(*one) for one in verdicts]}))
    else:
        # If the output is a file, the table must not be truncated.
        show_table(Console(width=None if sys.stdout.isatty() else 160), verdicts)
    return 1 if any(verdict.failed for _, verdict in verdicts) else 0


async def _measure(arguments: argparse.Namespace) -> list[tuple[str, Verdict]]:
    operations = [one for one in OPERATIONS if arguments.only is None or one.name in arguments.only]
    fronts = arguments.front or (list(FRONTS) if shutil.which("caddy") else ["pharos"])
    pace = replace(FULL, per_second=arguments.per_second)
    verdicts: list[tuple[str, Verdict]] = []
    with showing_progress(len(fronts) * (len(operations) + 1)) as progress:
        for front in fronts:
            verdicts += [(front, one) for one in await _tour(front, operations, pace, progress)]
    return verdicts


async def _tour(name: str, operations: Sequence[Operation], pace: Pace, progress: Progress) -> list[Verdict]:
    def begin(operation: str) -> None:
        progress.end_part()
        progress.begin_part(f"{operation} ({name})")

    with FRONTS[name]() as front:
        return await run_tour(operations, pace, on_begin=begin, front=front)


if __name__ == "__main__":
    sys.exit(main())
