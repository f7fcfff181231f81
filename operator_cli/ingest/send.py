"""Command `pharos send`: ship files of events and access logs, each event once."""

import argparse
import asyncio
import contextlib
import dataclasses
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import uvloop
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from operator_cli.credentials import (
    add_data_argument,
    check_key,
    check_url,
    get_ingest_access,
    read_credentials,
)
from operator_cli.errors import CommandFailed
from operator_cli.ingest.sending.backoff import Backoff
from operator_cli.ingest.sending.delivery import Delivery, open_sending_session
from operator_cli.ingest.sending.line_formats import FORMATS
from operator_cli.ingest.sending.progress_file import ProgressFolder
from operator_cli.ingest.sending.report import Report, Totals
from operator_cli.ingest.sending.send_files import RateLimit, Sender, send_files
from operator_cli.ingest.sending.wait_until_stored import wait_until_stored

_DESCRIPTION = """\
Send files of events (NDJSON: one event of the public API a line) and access
logs of nginx and Apache (common and combined format) to a Pharos. Files may
be compressed with gzip; - is standard input.

Each event is stored once, however often the command is interrupted and run
again: a file is identified by its text, also after it was moved, rotated or
compressed, and only its new part is sent. The progress of each file is kept
in DIR/send-state. Files with the same text count as one, unless they have
different --source names.

Lines that are not events are counted, shown and left out. Addresses and user
names of access logs are not sent."""


def register_send(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
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
    parser.add_argument(
        "--format", choices=sorted(FORMATS), help="format of the lines (detected from the first)"
    )
    parser.add_argument(
        "--source", default="", metavar="NAME", help="distinguishes files with the same text (none)"
    )
    parser.add_argument(
        "--batch", type=_parse_whole(1, 1000), default=100, metavar="N", help="most events a request (100)"
    )
    parser.add_argument(
        "--concurrency", type=_parse_whole(1, 64), default=4, metavar="N", help="requests at once (4)"
    )
    parser.add_argument("--rate", type=_parse_positive, metavar="N", help="most events a second (no limit)")
    parser.add_argument(
        "--give-up-after", type=_parse_positive, metavar="SECONDS", help="without any success (never)"
    )
    parser.add_argument("--strict", action="store_true", help="stop at the first line that is not an event")
    parser.add_argument("--wait", action="store_true", help="wait until what was sent is stored")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.set_defaults(run=_run)


def _parse_whole(minimum: int, maximum: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text)
        if not minimum <= number <= maximum:
            raise argparse.ArgumentTypeError(f"{text} is not between {minimum} and {maximum}")
        return number

    parse.__name__ = "whole number"
    return parse


def _parse_positive(text: str) -> float:
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
        report.print_message("stopped. Run the same command again to continue from here.")
        return 130
    _print_summary(report.totals, arguments.json)
    return 0


async def _send(arguments: argparse.Namespace, report: Report) -> None:
    destination = find_destination(arguments.data, arguments.url, arguments.key_file)
    folder = ProgressFolder(arguments.data / "send-state", destination.name, arguments.source)
    backoff = Backoff(report, arguments.give_up_after)
    async with open_sending_session(destination.key, arguments.concurrency) as session:
        delivery = Delivery(session, destination.base_url, backoff, report)
        with _progress_bar(report, arguments.files) as show_progress:
            sender = Sender(
                deliver=delivery.deliver,
                folder=folder,
                report=report,
                max_events=arguments.batch,
                concurrency=arguments.concurrency,
                rate_limit=RateLimit(arguments.rate),
                format=FORMATS[arguments.format] if arguments.format else None,
                show_progress=show_progress,
            )
            await send_files(sender, arguments.files)
            if arguments.wait:
                await wait_until_stored(session, destination.base_url, sender.receipts, backoff)


@contextlib.contextmanager
def _progress_bar(report: Report, files: list[str]) -> Iterator[Callable[[str, int], None]]:
    """Return a function that takes a file and its number of sent bytes. Shows nothing if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield lambda file, done: None
        return
    sizes = {file: _size(file) for file in files}
    done_by_file = dict.fromkeys(files, 0)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("sending", total=sum(sizes.values()) or None)
        # Through rich, so that messages are printed above the bar.
        report.write = lambda line: console.print(line, markup=False, highlight=False, soft_wrap=True)

        def show(file: str, done: int) -> None:
            # Batches are delivered in any order.
            done_by_file[file] = max(done_by_file[file], done)
            progress.update(task, description=os.path.basename(file), completed=sum(done_by_file.values()))

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


@dataclass(frozen=True, slots=True)
class Destination:
    """Where to send. `base_url` ends in `/api`; `name` identifies the destination in the saved progress."""

    base_url: str
    key: str = field(repr=False)
    name: str


def find_destination(data: Path, url: str | None, key_file: Path | None) -> Destination:
    """Return the destination of the arguments, else that of the `pharos up` on `data`. Raises `CommandFailed`."""
    if (url is None) != (key_file is None):
        # The key of one server must not go to another by mistake.
        raise CommandFailed("--url and --key-file go together.")
    if url is not None and key_file is not None:
        key = _read_key(key_file)
        base_url = check_url(url)
        digest = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
        return Destination(base_url, key, f"{base_url} {digest}")
    credentials = read_credentials(data)
    base_url, key = get_ingest_access(credentials, data)
    # The port and the key may change at each start; the environment stays.
    return Destination(base_url, key, str(credentials["environment_id"]))


def _read_key(file: Path) -> str:
    try:
        key = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{file} cannot be read: {error}") from None
    return check_key(key, file)
