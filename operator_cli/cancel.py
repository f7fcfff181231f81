"""`pharos cancel`: a deployment is called off."""

import argparse
from typing import Any

from operator_cli.ask import WHICH, add_ask_arguments, ask
from operator_cli.confirm import add_yes_argument, confirmed
from operator_cli.tell import tell


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "cancel",
        help="call a deployment off",
        description="Call off a deployment that is queued, waits for approval or is being built. Once its release is "
        f"being switched to it goes on to its end. {WHICH}",
    )
    parser.add_argument("id", type=int, metavar="DEPLOYMENT", help="its number")
    add_yes_argument(parser)
    add_ask_arguments(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if not confirmed(arguments, f"cancel deployment {arguments.id}"):
        return 1
    return tell(arguments, ask(arguments, "deployments/cancel", {"id": arguments.id}), _show)


def _show(told: dict[str, Any]) -> None:
    print(f"Deployment {told['id']} is canceled.")
