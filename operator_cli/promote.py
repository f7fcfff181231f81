"""`pharos promote`: brings what one environment has to a later one."""

import argparse

from operator_cli.ask import WHICH
from operator_cli.following import add_following_arguments, queue_and_follow


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "promote",
        help="bring what one environment has to a later one",
        description="Bring what was built for one environment to another of a higher order in the same project, "
        f"without building it again, and follow it until it is live. Exit status as of `pharos deploy`. {WHICH}",
    )
    parser.add_argument(
        "what",
        metavar="DEPLOYMENT|ENVIRONMENT",
        help="a deployment's number; or an environment, env_…, slug or PROJECT/SLUG: what is live there",
    )
    parser.add_argument("--to", required=True, metavar="ENVIRONMENT", help="where it shall be live as well")
    parser.add_argument("--note", metavar="TEXT", help="why, for others to read")
    add_following_arguments(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    wanted = {"what": arguments.what, "to": arguments.to, "note": arguments.note}
    return queue_and_follow(arguments, "deployments/promote", wanted)
