"""`pharos send FILE…`: ships files of events and access logs, each event once."""

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import uvloop
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from operator_cli.credentials import add_data_argument
from operator_cli.sending.deliver import Delivery, sending_session
from operator_cli.sending.destination import find_destination
from operator_cli.sending.formats import FORMATS
from operator_cli.sending.patience import Patience
from operator_cli.sending.progress_file import ProgressFolder
from operator_cli.sending.report import Report, Totals
from operator_cli.sending.send_files import Pace, Sender, send_files
from operator_cli.sending.wait_stored import wait_until_stored

_DESCRIPTION = """\
Send files of events (NDJSON: one event of the public API a line) and access logs of nginx and Apache (common and
combined format) to a Pharos. Files may be compressed with gzip; - is standard input.

Each event is stored once, however often the command is cut off and run again: a file is known by its text, also
after it was moved, rotated or compressed, and only what is new in it is sent. How far each file was sent is kept
in DIR/send-state. Files with the same text count as one, unless they are given another --source.

Lines that are no events are counted, shown and left out. Of access logs no address and no user name is sent."""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "send",
        help="ship a file of events or an access log",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a file to send; - is standard input")
    add_data_argument(parser)
    parser.add_argument("--url", help="address of another Pharos, like https://pharos.example")
    parser.add_argument("--key-file", type=Path, metavar="FILE", help="file that holds its ingest key")
    parser.add_argument("--format", choices=sorted(FORMATS), help="format of the lines (seen from the first)")
    parser.add_argument(
        "--source", default="", metavar="NAME", help="sets apart files that hold the same text (none)"
    )
    parser.add_argument(
        "--batch", type=_whole(1, 1000), default=100, metavar="N", help="most events a request (100)"
    )
    parser.add_argument(
        "--concurrency", type=_whole(1, 64), default=4, metavar="N", help="requests at once (4)"
    )
    parser.add_argument("--rate", type=_positive, metavar="N", help="most events a second (no limit)")
    parser.add_argument(
        "--give-up-after", type=_positive, metavar="SECONDS", help="without any success (never)"
    )
    parser.add_argument("--strict", action="store_true", help="stop at the first line that is no event")
    parser.add_argument("--wait", action="store_true", help="wait until what was sent is stored")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.set_defaults(run=_run)


def _whole(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text)
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{text} is not between {least} and {most}")
        return number

    parse.__name__ = "whole number"
    return parse


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number


def _run(arguments: argparse.Namespace) -> int:
    report = Report(arguments.strict)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_send(arguments, report))
    except KeyboardInterrupt:
        report.note("stopped. Run the same command again to go on from here.")
        return 130
    _print_summary(report.totals, arguments.json)
    return 0


async def _send(arguments: argparse.Namespace, report: Report) -> None:
    destination = find_destination(arguments.data, arguments.url, arguments.key_file)
    folder = ProgressFolder(arguments.data / "send-state", destination.name, arguments.source)
    patience = Patience(report, arguments.give_up_after)
    async with sending_session(destination.key, arguments.concurrency) as session:
        delivery = Delivery(session, destination.base_url, patience, report)
        with _progress_bar(report, arguments.files) as show_progress:
            sender = Sender(
                deliver=delivery.deliver,
                folder=folder,
                report=report,
                most_events=arguments.batch,
                concurrency=arguments.concurrency,
                pace=Pace(arguments.rate),
                format=FORMATS[arguments.format] if arguments.format else None,
                show_progress=show_progress,
            )
            await send_files(sender, arguments.files)
            if arguments.wait:
                await wait_until_stored(session, destination.base_url, sender.receipts, patience)


@contextlib.contextmanager
def _progress_bar(report: Report, files: list[str]) -> Iterator[Callable[[str, int], None]]:
    """Takes (file, how many bytes of it are done). Shows nothing where standard error is no terminal."""
    if not sys.stderr.isatty():
        yield lambda file, done: None
        return
    sizes = {file: _size(file) for file in files}
    done_of = dict.fromkeys(files, 0)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("sending", total=sum(sizes.values()) or None)
        # Messages go above the bar, not through it.
        report.write = lambda line: console.print(line, markup=False, highlight=False, soft_wrap=True)

        def show(file: str, done: int) -> None:
            # Batches arrive in any order.
            done_of[file] = max(done_of[file], done)
            progress.update(task, description=os.path.basename(file), completed=sum(done_of.values()))

        yield show


def _size(file: str) -> int:
    try:
        return 0 if file == "-" else os.stat(file).st_size
    except OSError:
        return 0


def _print_summary(totals: Totals, as_json: bool) -> None:
    summary = dataclasses.asdict(totals)
    summary["seconds"] = round(totals.seconds, 3)
    summary["events_per_second"] = round(totals.events_sent / max(totals.seconds, 0.001), 1)
    if as_json:
        print(json.dumps(summary))
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in summary.items():
        table.add_row(name.replace("_", " "), f"{value:,}")
    Console().print(table)
