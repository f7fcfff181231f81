"""`pharos deployments` and `cancel`."""

import argparse
from typing import Any

from operator_cli.api.client import Api, open_api
from operator_cli.api.default_environment import Effect
from operator_cli.api.names import list_projects, resolve_environment
from operator_cli.arguments import (
    add_client_arguments,
    add_project_argument,
    add_yes_argument,
    complete,
    confirm,
)
from operator_cli.counts import add_limit_argument
from operator_cli.deployments.numbers import explaining_deployment
from operator_cli.messages import print_result


def register_deployments(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "deployments",
        help="show the newest deployments",
        description="The newest deployments, with the trigger and the person who requested each.",
    )
    environment = parser.add_argument(
        "--environment",
        metavar="ENVIRONMENT",
        help="only to this environment: production, shop/production, or its ID",
    )
    complete(environment, "environment")
    add_project_argument(parser, "only of this project", dest="project")
    add_limit_argument(parser, 20)
    add_client_arguments(parser)
    parser.set_defaults(run=_list)


def _list(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    return print_result(arguments, _read(api, arguments), lambda rows: _show_list(arguments, rows))


def _read(api: Api, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the newest deployments of an environment, or of one or all projects."""
    limit: int = arguments.limit
    if arguments.environment is not None:
        environment = resolve_environment(api, arguments.environment, arguments.project, effect=Effect.READS)
        return api.get_all("environments", environment.id, "deployments", limit=limit)
    deployments = [
        deployment
        for project in list_projects(api, arguments.project)
        for deployment in api.get_all("projects", project.id, "deployments", limit=limit)
    ]
    return sorted(deployments, key=lambda deployment: int(deployment["id"]), reverse=True)[:limit]


def _show_list(arguments: argparse.Namespace, deployments: list[dict[str, Any]]) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.deployments.tables import show_deployments

    show_deployments(arguments, deployments)


def register_cancel(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "cancel",
        help="cancel a deployment",
        description="Cancel a deployment that is queued, waits for approval or is being built. Once traffic switches "
        "to its release, it runs to its end.",
    )
    parser.add_argument("id", type=int, metavar="DEPLOYMENT", help="the number of the deployment")
    add_yes_argument(parser)
    add_client_arguments(parser)
    parser.set_defaults(run=_cancel)


def _cancel(arguments: argparse.Namespace) -> int:
    if not confirm(arguments, f"cancel deployment {arguments.id}"):
        return 1
    with explaining_deployment(arguments.id):
        canceled = open_api(arguments).post("deployments", arguments.id, "cancel")
    return print_result(
        arguments, canceled, lambda deployment: print(f"Deployment {deployment['id']} is canceled.")
    )
