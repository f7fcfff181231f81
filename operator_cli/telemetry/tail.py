"""Command `pharos tail`: the newest events of a running `pharos up`, with `--follow` also new ones."""

import argparse
import asyncio
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.text import Text

from operator_cli.control_client import request_socket
from operator_cli.credentials import add_data_argument
from operator_cli.errors import CommandFailed
from operator_cli.messages import qualify_commands
from pipeline_contracts.times import to_epoch_ms

_MAX_COUNT = 1000
# A batch gets its time of receipt before its body is read, and its offset in the log after: a slow upload is stored
# after a batch that was received later. Each poll overlaps the previous one by this much.
_OVERLAP_MS = 5000
_COLOURS = {"debug": "dim", "warning": "yellow", "error": "red", "critical": "bold red"}

Event = dict[str, Any]


def register_tail(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "tail",
        help="show the newest events",
        description="Show the newest events as they were stored, the newest last.",
    )
    parser.add_argument(
        "-n", "--lines", type=_parse_count, default=20, metavar="N", help="how many (20; 1 to 1000)"
    )
    parser.add_argument(
        "-f", "--follow", action="store_true", help="keep showing what comes in; end with Ctrl-C"
    )
    parser.add_argument("--environment", default="", metavar="ID", help="of this environment only, env_…")
    parser.add_argument("--json", action="store_true", help="print JSON, one event a line")
    add_data_argument(parser)
    parser.set_defaults(run=_run)


def _parse_count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= _MAX_COUNT:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and {_MAX_COUNT}")
    return number


def _run(arguments: argparse.Namespace) -> int:
    asyncio.run(_tail(arguments))
    return 0


async def _tail(arguments: argparse.Namespace) -> None:
    console = Console(highlight=False, soft_wrap=True)
    events = await _request_events(
        arguments.data, {"environment": arguments.environment, "limit": str(arguments.lines)}
    )
    _show(events, console, arguments.json)
    if not events and not arguments.follow:
        print("No events yet.", file=sys.stderr)
    if arguments.follow:
        # Older events were not requested.
        start = received_ms(events[-1]) if events else to_epoch_ms(datetime.now(UTC))
        await _follow(arguments, console, UnshownEvents(start, events))


async def _follow(arguments: argparse.Namespace, console: Console, unshown: "UnshownEvents") -> None:
    is_reported = False
    while True:
        await asyncio.sleep(1.0)
        since = str(unshown.since_ms)
        params = {
            "environment": arguments.environment,
            "since_ms": since,
            "after_ms": since,
            "limit": str(_MAX_COUNT),
        }
        try:
            events = await _request_events(arguments.data, params)
        except CommandFailed as error:
            if not is_reported:
                print(f"pharos: {error} Still waiting.", file=sys.stderr)
            is_reported = True
            continue
        is_reported = False
        new = unshown.take(events)
        if len(new) == _MAX_COUNT:
            print(
                qualify_commands("pharos: more came in than can be shown; `pharos query` has all."),
                file=sys.stderr,
            )
        _show(new, console, arguments.json)


async def _request_events(data: Path, params: dict[str, str]) -> list[Event]:
    """Return the newest events, oldest first."""
    events: list[Event] = orjson.loads(await request_socket(data, "GET", "/events", params=params))
    return events[::-1]


def received_ms(event: Event) -> int:
    """Return the time of receipt in milliseconds since 1970."""
    moment = datetime.fromisoformat(event["received_at"])
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


class UnshownEvents:
    """Finds the new events in overlapping results. Memory is bounded by the overlap."""

    def __init__(self, start_ms: int, shown: Iterable[Event]) -> None:
        self._start_ms = start_ms
        self._newest_ms = start_ms
        self._seen: dict[tuple[int, int], int] = {}
        self.take(shown)

    @property
    def since_ms(self) -> int:
        """Return the time from which the next poll requests events."""
        return max(self._start_ms, self._newest_ms - _OVERLAP_MS) - 1

    def take(self, events: Iterable[Event]) -> list[Event]:
        """Return the events that no earlier call returned. `events` are sorted oldest first."""
        new = []
        for event in events:
            key = (event["log_offset"], event["position"])
            if key in self._seen:
                continue
            at = self._seen[key] = received_ms(event)
            self._newest_ms = max(self._newest_ms, at)
            new.append(event)
        oldest = self.since_ms
        self._seen = {key: at for key, at in self._seen.items() if at >= oldest}
        return new


def _show(events: list[Event], console: Console, as_json: bool) -> None:
    if as_json:
        sys.stdout.write("".join(orjson.dumps(event).decode() + "\n" for event in events))
    else:
        for event in events:
            console.print(format_event(event))
    sys.stdout.flush()


def format_event(event: Event) -> Text:
    """Return one line with time, type, severity, service, title, status and duration."""
    severity = event["severity"] or ""
    moment = datetime.fromisoformat(event["timestamp"] or event["received_at"])
    clock = moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d}"
    line = Text(f"{clock}  {event['type']:<9}  {severity:<8}  ", style=_COLOURS.get(severity, ""))
    summary = (
        " ".join(part for part in (event["name"], event["title"]) if part) or event["route"] or event["url"]
    )
    parts = [event["service"], summary]
    if event["status_code"]:
        parts.append(str(event["status_code"]))
    if event["duration_ms"] is not None:
        parts.append(f"{event['duration_ms']:.1f} ms")
    # The text of an event may contain line ends, and escape sequences that a terminal would interpret.
    text = "  ".join(part for part in parts if part)
    return line.append("".join(c if c.isprintable() else " " for c in text))
