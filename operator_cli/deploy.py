"""`pharos deploy`: brings what a branch has to an environment, and shows how it goes."""

import argparse

from operator_cli.ask import WHICH
from operator_cli.following import add_following_arguments, queue_and_follow


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "deploy",
        help="deploy to an environment, and follow it until it is live",
        description="Queue a deployment and follow it until it is finished. Exit status 0: it is live, 1: it is not, "
        f"3: a second person has to agree first. Ctrl-C ends the following, not the deployment. {WHICH}",
    )
    add_optional_place(parser)
    parser.add_argument(
        "--ref",
        metavar="REF",
        help="a branch, tag or commit (the environment's branch, else the repository's)",
    )
    add_following_arguments(parser)
    parser.set_defaults(run=_run)


def add_optional_place(
    parser: argparse.ArgumentParser,
    help_: str = "env_…, its number, its slug, or PROJECT/SLUG; may be left out where there is only one",
) -> None:
    """Which environment."""
    parser.add_argument("environment", nargs="?", metavar="ENVIRONMENT", help=help_)


def _run(arguments: argparse.Namespace) -> int:
    wanted = {"environment_id": arguments.environment, "ref": arguments.ref}
    return queue_and_follow(arguments, "deployments/deploy", wanted)
