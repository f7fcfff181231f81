"""Command `pharos tail`: the newest telemetry events of an environment, with `--follow` also new ones."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Any, Final, get_args

from operator_cli.api.client import open_api
from operator_cli.api.names import resolve_environment
from operator_cli.arguments import add_client_arguments, complete
from operator_cli.counts import add_limit_argument
from operator_cli.durations import encode_duration, format_duration, parse_duration
from operator_cli.telemetry.follow_newest import MAX_ROWS, UnshownRows, follow_newest
from pipeline_contracts.telemetry import EventType, Severity

_FILTERS: Final = ("type", "severity", "service")

Event = dict[str, Any]


def register_tail(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "tail",
        help="show the newest events",
        description="Show the newest telemetry events of an environment, the newest last. With --follow, an event that "
        "arrives over a minute after its time may be left out. --json prints an event a line.",
    )
    environment = parser.add_argument(
        "--environment",
        metavar="ENVIRONMENT",
        help="its name (production, or shop/production) or ID; may be left out where there is only one",
    )
    complete(environment, "environment")
    add_limit_argument(parser, 20)
    parser.add_argument(
        "-f", "--follow", action="store_true", help="keep showing what comes in; end with Ctrl-C"
    )
    parser.add_argument("--type", choices=get_args(EventType), help="only events of this type")
    parser.add_argument("--severity", choices=get_args(Severity), help="only events of this severity")
    parser.add_argument("--service", metavar="NAME", help="only events of this service")
    parser.add_argument(
        "--since",
        type=parse_duration,
        default=parse_duration("7d"),
        metavar="TIME",
        help="how far back (7d; at most 90d)",
    )
    add_client_arguments(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    environment = resolve_environment(api, arguments.environment)
    path = ("environments", environment.id, "events")
    filters = {name: getattr(arguments, name) for name in _FILTERS}
    # Many events have the same time, so those before the first shown one are read as well: they are no new ones.
    limit = MAX_ROWS if arguments.follow else arguments.limit
    events = api.get_all(*path, query={**filters, "since": encode_duration(arguments.since)}, limit=limit)
    _show(arguments, events[: arguments.limit][::-1])
    if arguments.follow:
        unshown = UnshownRows(events, is_full=len(events) == MAX_ROWS, now=time.monotonic())
        follow_newest(api, path, filters, unshown, lambda new: _show(arguments, new))
    if not events:
        since = format_duration(arguments.since)
        print(
            f"No events of {environment.path} in the last {since}; --since looks further back.",
            file=sys.stderr,
        )
    return 0


def _show(arguments: argparse.Namespace, events: Sequence[Event]) -> None:
    """Print the events, the oldest first."""
    if arguments.json:
        sys.stdout.write("".join(f"{json.dumps(event)}\n" for event in events))
    elif arguments.quiet:
        sys.stdout.write("".join(f"{event['id']}\n" for event in events if event["id"]))
    elif events:
        # Imported here: rich is slow to import, and --json needs none of it.
        from rich.console import Console

        from operator_cli.telemetry.event_line import format_event

        console = Console(highlight=False, soft_wrap=True)
        for event in events:
            console.print(format_event(event))
    sys.stdout.flush()
