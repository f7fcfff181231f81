"""Commands `pharos deploy`, `rollback` and `promote`: queue a deployment and follow it until it is final."""

import argparse

from operator_cli.arguments import add_optional_environment_argument
from operator_cli.control_client import WHICH_INSTALLATION
from operator_cli.deployments.follow import add_follow_arguments, queue_and_follow


def register_deploy(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "deploy",
        help="deploy to an environment, and follow it until it is live",
        description="Queue a deployment and follow it until it is finished. Exit status 0: it is live, 1: it is not, "
        f"3: a second person has to agree first. Ctrl-C ends the following, not the deployment. {WHICH_INSTALLATION}",
    )
    add_optional_environment_argument(parser)
    parser.add_argument(
        "--ref",
        metavar="REF",
        help="a branch, tag or commit (the environment's branch, else the repository's)",
    )
    add_follow_arguments(parser)
    parser.set_defaults(run=_deploy)


def _deploy(arguments: argparse.Namespace) -> int:
    params = {"environment_id": arguments.environment, "ref": arguments.ref}
    return queue_and_follow(arguments, "deployments/deploy", params)


def register_rollback(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "rollback",
        help="make the release before the live one live again",
        description="Make an earlier release of an environment live again, with the variables that it ran with and "
        "without a build, and follow it until it is live. Pushes do not replace it until somebody deploys by hand. "
        "An environment retains its newest five releases, or as many as its workflow's `retain` says. Exit status as "
        "for `pharos deploy`. "
        f"{WHICH_INSTALLATION}",
    )
    add_optional_environment_argument(parser)
    parser.add_argument(
        "--to", type=int, metavar="DEPLOYMENT", help="the release of this one (the one before the live one)"
    )
    add_follow_arguments(parser)
    parser.set_defaults(run=_roll_back)


def _roll_back(arguments: argparse.Namespace) -> int:
    params = {"environment_id": arguments.environment, "to": arguments.to}
    return queue_and_follow(arguments, "deployments/roll-back", params)


def register_promote(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "promote",
        help="deploy the release of one environment to a later one",
        description="Deploy what was built for one environment to another of a higher order in the same project, "
        "without building it again, and follow it until it is live. Exit status as for `pharos deploy`. "
        f"{WHICH_INSTALLATION}",
    )
    parser.add_argument(
        "source",
        metavar="DEPLOYMENT|ENVIRONMENT",
        help="a deployment's number; or an environment, env_…, slug or PROJECT/SLUG, for its live release",
    )
    parser.add_argument("--to", required=True, metavar="ENVIRONMENT", help="the environment to deploy to")
    parser.add_argument("--note", metavar="TEXT", help="why, for others to read")
    add_follow_arguments(parser)
    parser.set_defaults(run=_promote)


def _promote(arguments: argparse.Namespace) -> int:
    params = {"what": arguments.source, "to": arguments.to, "note": arguments.note}
    return queue_and_follow(arguments, "deployments/promote", params)
