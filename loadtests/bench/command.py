"""What all benchmark commands share: running the measurements, ending on a signal, and writing results."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")


def add_json_option(parser: argparse.ArgumentParser, results: Path, what: str) -> None:
    """Add the option `--json`. `what`: what the option writes. `results`: the file that is written without the
    option."""
    parser.add_argument(
        "--json",
        metavar="FILE",
        default=str(results),
        help=f"write {what} as JSON to this file (./{results}); - prints them instead of the table",
    )


def run_measurements(name: str, measure: Coroutine[Any, Any, T], *faults: type[Exception]) -> T:
    """Return the result of `measure`. Raises `SystemExit`: with 1 and a message for an expected failure, with 130 for a
    signal."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_cancel_on_sigterm(measure))
    except faults as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(1)
    except (KeyboardInterrupt, asyncio.CancelledError):
        print(f"{name}: stopped by a signal; nothing was written.", file=sys.stderr)
        sys.exit(130)


async def _cancel_on_sigterm(measure: Coroutine[Any, Any, T]) -> T:
    """Handle SIGTERM like Ctrl-C, so that processes are stopped and folders are removed before the exit."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await measure


def write_results(where: str, document: bytes, show: Callable[[], None]) -> None:
    """Show the results and write the document to the file `where`. If `where` is `-`, only print the document."""
    if where == "-":
        sys.stdout.write(document.decode())
        return
    show()
    Path(where).write_bytes(document)
    print(f"Written to {where}")
