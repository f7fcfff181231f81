"""`pharos lock`: nobody deploys to an environment until it is unlocked."""

import argparse
from typing import Any

from operator_cli.ask import WHICH, add_ask_arguments, ask
from operator_cli.environment import add_place_argument, called
from operator_cli.plain_text import plain
from operator_cli.tell import tell


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "lock",
        help="let nobody deploy to an environment",
        description="Let nobody deploy to an environment, roll it back or promote to it until `pharos unlock`. What "
        "is queued already is not taken up either. An environment that is locked already stays as it is: the "
        f"command fails and tells who holds it and why. {WHICH}",
    )
    add_place_argument(parser)
    parser.add_argument("--reason", required=True, metavar="TEXT", help="what others are told")
    parser.add_argument("--by", metavar="EMAIL", help="who holds it; somebody who may deploy in the project")
    add_ask_arguments(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    wanted = {"id": arguments.environment, "reason": arguments.reason, "by": arguments.by}
    return tell(arguments, ask(arguments, "environments/lock", wanted), _show)


def _show(told: dict[str, Any]) -> None:
    print(f"Environment {called(told)} is locked: {plain(told['lock']['reason'])}")
