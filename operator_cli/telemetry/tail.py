"""Command `pharos tail`: the newest telemetry events of an environment, with `--follow` also new ones."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any, Final, get_args

from operator_cli.api.client import open_api
from operator_cli.api.default_environment import Effect
from operator_cli.api.names import resolve_environment
from operator_cli.arguments import add_client_arguments
from operator_cli.counts import add_limit_argument
from operator_cli.telemetry.follow_newest import follow_newest
from operator_cli.telemetry.time_range import (
    add_environment_option,
    add_range_arguments,
    describe_no_results,
    encode_range,
    refuse_following_a_past_range,
)
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
    add_environment_option(parser)
    add_limit_argument(parser, 20)
    parser.add_argument(
        "-f", "--follow", action="store_true", help="keep showing new events; end with Ctrl-C"
    )
    parser.add_argument("--type", choices=get_args(EventType), help="only events of this type")
    parser.add_argument("--severity", choices=get_args(Severity), help="only events of this severity")
    parser.add_argument("--service", metavar="NAME", help="only events of this service")
    add_range_arguments(parser, "7d")
    add_client_arguments(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    refuse_following_a_past_range(arguments)
    api = open_api(arguments)
    environment = resolve_environment(api, arguments.environment, effect=Effect.READS)
    path = ("environments", environment.id, "events")
    filters = {name: getattr(arguments, name) for name in _FILTERS}
    within = encode_range(arguments)
    if arguments.follow:
        follow_newest(api, path, filters, within, arguments.limit, lambda rows: _show(arguments, rows))
    events = api.get_all(*path, query={**filters, **within}, limit=arguments.limit)
    _show(arguments, events[::-1])
    if not events:
        print(describe_no_results("events", environment.path, arguments), file=sys.stderr)
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
