"""Command `pharos usage`."""

import argparse
from typing import Any, Final

from operator_cli.api.client import open_api
from operator_cli.arguments import add_client_arguments
from operator_cli.messages import print_result

_MAX_DAYS: Final = 90


def register_usage(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "usage",
        help="show the number of objects and the stored data of the account",
        description="How many objects the account has, and how much telemetry and how many page views it has stored of "
        "each of the last days (UTC), by environment and by site.",
    )
    parser.add_argument(
        "--days",
        type=_parse_days,
        default=14,
        metavar="N",
        help=f"how many, of which the last one is today (14; 1 to {_MAX_DAYS})",
    )
    add_client_arguments(parser)
    parser.set_defaults(run=_run)


def _parse_days(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MAX_DAYS:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and {_MAX_DAYS}")
    return int(text)


def _run(arguments: argparse.Namespace) -> int:
    usage = open_api(arguments).get("usage", query={"days": arguments.days})
    return print_result(arguments, usage, lambda usage: _show(arguments, usage))


def _show(arguments: argparse.Namespace, usage: dict[str, Any]) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.accounts.usage_tables import show_usage

    show_usage(arguments, usage)
