"""Command `pharos webhooks`: deliveries of Git hosts, and the pushes that wait."""

import argparse
import json
from functools import partial
from typing import Any, NoReturn

from operator_cli.arguments import add_subcommands
from operator_cli.control_client import WHICH_INSTALLATION, request_action
from operator_cli.messages import print_result

_SUBCOMMANDS = {
    "list": "list the newest deliveries with the response to each and its reason",
    "show": "show one with its headers and its body",
    "replay": "process one again, as if it had just arrived; this deploys what its branch has now",
    "waiting": "list the pushes that wait for another deployment to their environment to end",
}


def register_webhooks(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "webhooks",
        help="list deliveries of Git hosts, replay one, and list waiting pushes",
        description="Signed webhook deliveries of Git hosts: those of the last 7 days are retained, with the response "
        f"to each. {WHICH_INSTALLATION}",
    )
    add_subcommands(parser, _SUBCOMMANDS, _run, _add_arguments)


def _add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    match name:
        case "list":
            parser.add_argument(
                "--repository", type=int, metavar="ID", help="of this one only: its ID, also one disconnected"
            )
            parser.add_argument(
                "-n", "--limit", type=int, default=20, metavar="N", help="how many (20; 1 to 1000)"
            )
        case "show" | "replay":
            parser.add_argument("id", type=int, metavar="ID", help="ID as `list` shows it")


def _run(arguments: argparse.Namespace) -> int:
    return print_result(arguments, _request(arguments), partial(_show, arguments.subcommand))


def _request(arguments: argparse.Namespace) -> Any:
    action = f"webhooks/{arguments.subcommand}"
    match arguments.subcommand:
        case "list":
            return request_action(
                arguments, action, {"repository_id": arguments.repository, "limit": arguments.limit}
            )
        case "waiting":
            return request_action(arguments, action)
    result = request_action(arguments, action, {"id": arguments.id})
    if arguments.subcommand != "show" or result["body"] is None:
        return result
    return {**result, "body": _read_body(result["body"])}


def _read_body(text: str) -> Any:
    """Return the parsed body; the text itself if it is not JSON, as in a refused delivery."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text


def _refuse(name: str) -> NoReturn:
    # Python reads and writes NaN, which is not JSON.
    raise ValueError(name)


def _show(subcommand: str, result: Any) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.repositories.tables import show_deliveries, show_delivery, show_waiting_pushes

    match subcommand:
        case "list":
            show_deliveries(result)
        case "show":
            show_delivery(result)
        case "replay":
            show_deliveries([result])
        case "waiting":
            show_waiting_pushes(result)
