"""`pharos unlock`: people deploy to an environment again."""

import argparse
from typing import Any

from operator_cli.ask import WHICH, add_ask_arguments, ask
from operator_cli.environment import add_place_argument, called
from operator_cli.plain_text import plain
from operator_cli.tell import tell


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "unlock",
        help="let people deploy to an environment again",
        description="Take the lock from an environment, whoever holds it, and tell who did and why. Where there is "
        f"none nothing is changed. {WHICH}",
    )
    add_place_argument(parser)
    add_ask_arguments(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    return tell(arguments, ask(arguments, "environments/unlock", {"id": arguments.environment}), _show)


def _show(told: dict[str, Any]) -> None:
    was = told["was"]
    if was is None:
        print(f"Environment {called(told)} was not locked.")
    else:
        by = was["by"] or "an operator"
        print(f"Environment {called(told)} is unlocked. It was locked by {by}: {plain(was['reason'])}")
