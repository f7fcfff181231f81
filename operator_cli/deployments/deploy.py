"""`pharos deploy`, `rollback` and `promote`: queue a deployment and follow it until it is final."""

import argparse
import os
import shlex
from collections.abc import Sequence

from operator_cli.api.client import Api, open_api
from operator_cli.api.default_environment import Effect
from operator_cli.api.names import Environment, list_environments, resolve_environment
from operator_cli.arguments import add_optional_environment_argument, complete
from operator_cli.deployments.follow import add_follow_arguments, report_queued
from operator_cli.deployments.numbers import explaining_deployment
from operator_cli.errors import NOT_FOUND, CommandFailed, NoSuchName, UsageError

_STATUSES = "Exit status 0: it is live, 1: it is not, 3: a second person has to approve it first."


def register_deploy(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "deploy",
        help="deploy to an environment, and follow it until it is live",
        description=f"Queue a deployment and follow it until it is finished. {_STATUSES} Ctrl-C stops "
        "the output, not the deployment.",
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
    api = open_api(arguments)
    environment = _find_target(api, arguments.environment)
    body = {} if arguments.ref is None else {"ref": arguments.ref}
    return report_queued(api, arguments, api.post("environments", environment.id, "deploy", body=body))


def _find_target(api: Api, name: str | None) -> Environment:
    """Return the environment to deploy to. Raises `CommandFailed`; for a folder with what to do instead."""
    try:
        return resolve_environment(api, name, option="", effect=Effect.ADDS)
    except CommandFailed as error:
        # Other platforms deploy folders.
        if name is None or error.exit_status != NOT_FOUND or not os.path.isdir(name):
            raise
        folder = shlex.quote(os.path.abspath(name))
        raise NoSuchName(
            f"{name} is a folder. `pharos deploy` takes the name of an environment, and deploys commits of the "
            f"connected repository. To connect this folder: `pharos repository connect {folder}`."
        ) from None


def register_rollback(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "rollback",
        help="make the release before the live one live again",
        description="Make an earlier release of an environment live again, with the variables that it ran with and "
        "without a build, and follow it until it is live. Pushes do not replace it until somebody deploys by hand. "
        "An environment retains its newest five releases, or as many as its workflow's `retain` says. "
        f"{_STATUSES}",
    )
    add_optional_environment_argument(parser)
    parser.add_argument(
        "--to",
        type=int,
        metavar="DEPLOYMENT",
        help="the deployment whose release to restore (the one before the live one)",
    )
    add_follow_arguments(parser)
    parser.set_defaults(run=_roll_back)


def _roll_back(arguments: argparse.Namespace) -> int:
    api, number = open_api(arguments), arguments.to
    if number is None or arguments.environment is not None:
        environment = _find_environment_to_roll_back(api, arguments.environment)
        if number is None:
            number = _find_earlier_release(api, environment)
        else:
            _check_is_of(api, number, environment)
    with explaining_deployment(number):
        queued = api.post("deployments", number, "rollback")
    return report_queued(api, arguments, queued)


def _find_environment_to_roll_back(api: Api, name: str | None) -> Environment:
    """Return the environment of the name, or the only one. Raises `CommandFailed`."""
    try:
        return resolve_environment(api, name, option="")
    except CommandFailed as error:
        if name is None or not name.isdecimal() or error.exit_status != NOT_FOUND:
            raise
        raise NoSuchName(
            f"There is no environment {name}. For the release of deployment {name}: `pharos rollback --to {name}`."
        ) from None


def _find_earlier_release(api: Api, environment: Environment) -> int:
    """Return the deployment of the newest retained release that is older than the live one. Raises `CommandFailed`."""
    # From the newest.
    releases = api.get_all("environments", environment.id, "releases")
    position = next((i for i, release in enumerate(releases) if release["live"] is not None), None)
    if position is None:
        raise _nothing_live(environment)
    if position + 1 == len(releases):
        raise CommandFailed(
            f"{environment.path} has no retained release that is older than the live one, which deployment "
            f"{releases[position]['deployment_id']} has built: there is nothing to roll back to."
        )
    number: int = releases[position + 1]["deployment_id"]
    return number


def _nothing_live(environment: Environment) -> CommandFailed:
    return CommandFailed(
        f"Nothing is live in {environment.path}: `pharos deploy {environment.path}` deploys to it."
    )


def _check_is_of(api: Api, number: int, environment: Environment) -> None:
    """Raise `UsageError` if the deployment belongs to another environment, which would be rolled back instead."""
    with explaining_deployment(number):
        found = api.get("deployments", number)["environment_id"]
    if found != environment.id:
        raise UsageError(
            f"Deployment {number} did not go to {environment.path}: `pharos deployments --environment "
            f"{environment.path}` shows those that did."
        )


def register_promote(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "promote",
        help="deploy the release of one environment to a later one",
        description="Deploy the release of one environment to another environment of a higher order "
        "in the same project, "
        f"without building it again, and follow it until it is live. {_STATUSES}",
    )
    source = parser.add_argument(
        "source",
        metavar="DEPLOYMENT|ENVIRONMENT",
        help="a deployment's number; or an environment (staging, shop/staging, or its ID) for its live release",
    )
    target = parser.add_argument(
        "--to", required=True, metavar="ENVIRONMENT", help="the environment to deploy to"
    )
    for argument in (source, target):
        complete(argument, "environment")
    parser.add_argument("--note", metavar="TEXT", help="why, for others to read")
    add_follow_arguments(parser)
    parser.set_defaults(run=_promote)


def _promote(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    number, project = _find_source(api, arguments.source)
    target = resolve_environment(api, arguments.to, None if "/" in arguments.to else project)
    body = {"target_environment_id": target.id, "promotion_note": arguments.note}
    return report_queued(api, arguments, api.post("deployments", number, "promote", body=body))


def _find_source(api: Api, source: str) -> tuple[int, str | None]:
    """Return the deployment to promote, and the slug of its project if that is known. Raises `CommandFailed`."""
    if source.isdecimal():
        with explaining_deployment(source):
            environment_id = api.get("deployments", source)["environment_id"]
        return int(source), _find_project(list_environments(api), environment_id)
    environment = resolve_environment(api, source)
    live = api.get("environments", environment.id)["live"]
    if live is None:
        raise _nothing_live(environment)
    return live["deployment_id"], environment.project.slug


def _find_project(environments: Sequence[Environment], environment_id: str | None) -> str | None:
    return next((each.project.slug for each in environments if each.id == environment_id), None)
