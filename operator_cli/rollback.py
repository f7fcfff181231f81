"""`pharos rollback`: makes an earlier release live again."""

import argparse

from operator_cli.ask import WHICH
from operator_cli.deploy import add_optional_place
from operator_cli.following import add_following_arguments, queue_and_follow


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "rollback",
        help="make the release before the live one live again",
        description="Make an earlier release of an environment live again, with the variables that it ran with and "
        "without building anything, and follow it until it is. Pushes do not deploy over it until somebody deploys by "
        f"hand. The newest five releases of an environment are kept. Exit status as of `pharos deploy`. {WHICH}",
    )
    add_optional_place(parser)
    parser.add_argument(
        "--to", type=int, metavar="DEPLOYMENT", help="the release of this one (the one before the live one)"
    )
    add_following_arguments(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    wanted = {"environment_id": arguments.environment, "to": arguments.to}
    return queue_and_follow(arguments, "deployments/roll-back", wanted)
