"""`pharos tail`: the newest events of a running `pharos up`, and with --follow those that come in."""

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

from operator_cli.credentials import add_data_argument
from operator_cli.failure import CommandFailed
from operator_cli.operator_client import ask_operator
from operator_cli.typed_commands import typed_commands
from pipeline_contracts.times import to_epoch_ms

_MOST = 1000
# A batch's time of receipt is read before its body, its place in the log after it: a slow upload is stored
# behind one that was received later. Following looks back this far and leaves out what it has shown.
_LOOK_BACK_MS = 5000
_COLOURS = {"debug": "dim", "warning": "yellow", "error": "red", "critical": "bold red"}

Event = dict[str, Any]


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "tail",
        help="show the newest events",
        description="Show the newest events as they were stored, the newest last.",
    )
    parser.add_argument(
        "-n", "--lines", type=_count, default=20, metavar="N", help="how many (20; 1 to 1000)"
    )
    parser.add_argument(
        "-f", "--follow", action="store_true", help="keep showing what comes in; end with Ctrl-C"
    )
    parser.add_argument("--environment", default="", metavar="ID", help="of this environment only, env_…")
    parser.add_argument("--json", action="store_true", help="print JSON, one event a line")
    add_data_argument(parser)
    parser.set_defaults(run=_run)


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= _MOST:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and {_MOST}")
    return number


def _run(arguments: argparse.Namespace) -> int:
    asyncio.run(_tail(arguments))
    return 0


async def _tail(arguments: argparse.Namespace) -> None:
    console = Console(highlight=False, soft_wrap=True)
    events = await _ask(arguments.data, {"environment": arguments.environment, "limit": str(arguments.lines)})
    _show(events, console, arguments.json)
    if not events and not arguments.follow:
        print("No events yet.", file=sys.stderr)
    if arguments.follow:
        # What older events there are was not asked for.
        start = received_ms(events[-1]) if events else to_epoch_ms(datetime.now(UTC))
        await _follow(arguments, console, Unshown(start, events))


async def _follow(arguments: argparse.Namespace, console: Console, unshown: "Unshown") -> None:
    away = False
    while True:
        await asyncio.sleep(1.0)
        since = str(unshown.since_ms)
        parameters = {
            "environment": arguments.environment,
            "since_ms": since,
            "after_ms": since,
            "limit": str(_MOST),
        }
        try:
            events = await _ask(arguments.data, parameters)
        except CommandFailed as failure:
            if not away:
                print(f"pharos: {failure} Still waiting.", file=sys.stderr)
            away = True
            continue
        away = False
        new = unshown.take(events)
        if len(new) == _MOST:
            print(
                typed_commands("pharos: more came in than can be shown; `pharos query` has all."),
                file=sys.stderr,
            )
        _show(new, console, arguments.json)


async def _ask(data: Path, parameters: dict[str, str]) -> list[Event]:
    """The newest events, brought into the order of their arrival."""
    events: list[Event] = orjson.loads(await ask_operator(data, "GET", "/events", params=parameters))
    return events[::-1]


def received_ms(event: Event) -> int:
    """The time of receipt in milliseconds after 1970."""
    moment = datetime.fromisoformat(event["received_at"])
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


class Unshown:
    """Tells which events of overlapping answers are new. Memory is bounded by the overlap."""

    def __init__(self, start_ms: int, shown: Iterable[Event]) -> None:
        self._start_ms = start_ms
        self._newest_ms = start_ms
        self._seen: dict[tuple[int, int], int] = {}
        self.take(shown)

    @property
    def since_ms(self) -> int:
        """From when on to ask again."""
        return max(self._start_ms, self._newest_ms - _LOOK_BACK_MS) - 1

    def take(self, events: Iterable[Event]) -> list[Event]:
        """Those of `events`, oldest first, that were not given before."""
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
    """One line: time, type, severity, service, what it was, status and duration."""
    severity = event["severity"] or ""
    moment = datetime.fromisoformat(event["timestamp"] or event["received_at"])
    clock = moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d}"
    line = Text(f"{clock}  {event['type']:<9}  {severity:<8}  ", style=_COLOURS.get(severity, ""))
    what = (
        " ".join(part for part in (event["name"], event["title"]) if part) or event["route"] or event["url"]
    )
    parts = [event["service"], what]
    if event["status_code"]:
        parts.append(str(event["status_code"]))
    if event["duration_ms"] is not None:
        parts.append(f"{event['duration_ms']:.1f} ms")
    # An event's text may hold line ends and escape sequences of a terminal; neither is to act here.
    text = "  ".join(part for part in parts if part)
    return line.append("".join(c if c.isprintable() else " " for c in text))
