"""`pharos webhooks list|show|replay|waiting`: what Git hosts have sent, and what became of it."""

import argparse
import json
from functools import partial
from typing import Any, NoReturn

from operator_cli.actions import add_actions
from operator_cli.ask import WHICH, ask
from operator_cli.tell import tell

_ACTIONS = {
    "list": "show the newest deliveries with what each was answered, and why",
    "show": "show one with its headers and its body",
    "replay": "run one again, as if it had just come; what is deployed is what its branch has now",
    "waiting": "show the pushes that wait until nothing is deployed to their environment",
}


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "webhooks",
        help="show what Git hosts have sent, run it again, and show what waits",
        description="Webhooks that Git hosts have sent and signed: those of the last 7 days are kept, with what each "
        f"was answered. {WHICH}",
    )
    add_actions(parser, _ACTIONS, _run, _add_arguments)


def _add_arguments(action: argparse.ArgumentParser, name: str) -> None:
    match name:
        case "list":
            action.add_argument(
                "--repository", type=int, metavar="ID", help="of this one only: its ID, also one disconnected"
            )
            action.add_argument(
                "-n", "--limit", type=int, default=20, metavar="N", help="how many (20; 1 to 1000)"
            )
        case "show" | "replay":
            action.add_argument("id", type=int, metavar="ID", help="ID as `list` shows it")


def _run(arguments: argparse.Namespace) -> int:
    return tell(arguments, _ask(arguments), partial(_show, arguments.action))


def _ask(arguments: argparse.Namespace) -> Any:
    action = f"webhooks/{arguments.action}"
    match arguments.action:
        case "list":
            return ask(arguments, action, {"repository_id": arguments.repository, "limit": arguments.limit})
        case "waiting":
            return ask(arguments, action)
    told = ask(arguments, action, {"id": arguments.id})
    if arguments.action != "show" or told["body"] is None:
        return told
    return {**told, "body": _read_body(told["body"])}


def _read_body(text: str) -> Any:
    """What the body says; the text itself where it is no JSON, as that of a delivery that was refused."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text


def _refuse(name: str) -> NoReturn:
    # Python reads and writes NaN; no other program has to.
    raise ValueError(name)


def _show(action: str, told: Any) -> None:
    # Only here: a program that asks for JSON need not wait for what draws tables.
    from operator_cli.webhook_tables import show_deliveries, show_delivery, show_waiting

    match action:
        case "list":
            show_deliveries(told)
        case "show":
            show_delivery(told)
        case "replay":
            show_deliveries([told])
        case "waiting":
            show_waiting(told)
