"""`make faults`: causes all faults on a stack of its own, and prints a table of the results."""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from loadtests.faults.sender import EVENTS
from loadtests.faults.tour import SETTINGS, Result, run_tour
from loadtests.stack.parts import PartFailed
from loadtests.stack.stack import running_stack
from tests.support.engines import EngineMissing


def main() -> int:
    """Return exit status 0 if nothing was lost or repeated. Return 1 otherwise, or if the stack did not
    start."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.faults", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--per-second", type=float, default=6000)
    parser.add_argument("--longest", type=float, default=30, help="seconds of the longest outage (30)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    console = Console(stderr=True)
    folder = Path(tempfile.mkdtemp(prefix="pharos-faults-"))
    try:
        with running_stack(folder, settings=SETTINGS, report_progress=console.print) as stack:
            result = asyncio.run(
                run_tour(
                    stack,
                    events=arguments.events,
                    per_second=arguments.per_second,
                    longest=arguments.longest,
                    report_progress=partial(console.print, markup=False, soft_wrap=True),
                )
            )
    except (EngineMissing, PartFailed, RuntimeError) as error:
        print(error, file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        return 1
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if result.verdict.holds:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        console.print(f"The logs of all parts are in {folder}", markup=False)
    if arguments.json:
        print(json.dumps(_document(result)))
    else:
        # If the output is a file, the table must not be truncated.
        Console(width=None if sys.stdout.isatty() else 120).print(_table(result))
        print(result.verdict.text())
    return 0 if result.verdict.holds else 1


def _document(result: Result) -> dict[str, object]:
    return {
        "verdict": result.verdict.document(),
        "phases": [
            {
                "fault": phase.name,
                "acknowledged_events": verdict.events,
                "missing": len(verdict.missing) + len(verdict.incomplete),
                "doubled": len(verdict.doubled),
                "longest_pause_seconds": round(phase.longest_pause, 2),
                "other_answers": phase.other_answers,
                "lost_connections": phase.lost_connections,
            }
            for phase, verdict in zip(result.phases, result.by_phase, strict=True)
        ],
    }


def _table(result: Result) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("Fault", no_wrap=True)
    for heading in ("202s", "stored", "doubles", "pause", "503s", "cut"):
        table.add_column(heading, justify="right", no_wrap=True)
    for phase, verdict in zip(result.phases, result.by_phase, strict=True):
        stored = verdict.batches - len(verdict.missing) - len(verdict.incomplete)
        table.add_row(
            phase.name,
            f"{verdict.events:,}",
            f"{stored * EVENTS:,}",
            str(len(verdict.doubled)),
            f"{phase.longest_pause:.1f} s",
            str(phase.other_answers),
            str(phase.lost_connections),
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
