"""`pharos webhooks list|show|replay|waiting`: deliveries of Git hosts, and the pushes that wait."""

import argparse
from collections.abc import Mapping
from typing import Any

from operator_cli.api.client import Api, open_api
from operator_cli.api.names import Row, list_projects, request_first
from operator_cli.arguments import add_project_argument, add_verbs
from operator_cli.counts import add_limit_argument
from operator_cli.errors import NoSuchName
from operator_cli.messages import print_result
from operator_cli.repositories.find import HELP, resolve_repository

_VERBS = {
    "list": "list the newest deliveries with the response to each and its reason",
    "show": "show a delivery with its headers and its body",
    "replay": "process a delivery again; this deploys the present commit of its branch",
    "waiting": "list the pushes that wait for another deployment to their environment to end",
}


def register_webhooks(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "webhooks",
        help="deliveries of Git hosts, and waiting pushes",
        description="Signed webhook deliveries of Git hosts: those of the last 7 days are retained, with the response "
        "to each.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments)


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    if verb == "waiting":
        add_project_argument(parser, "only of this project", dest="project")
        return
    parser.add_argument(
        "--repository",
        metavar="REPOSITORY",
        help=f"only of {HELP}. A disconnected repository has only its number",
    )
    if verb == "list":
        add_limit_argument(parser, 20)
    else:
        parser.add_argument("id", type=int, metavar="ID", help="ID as `list` shows it")


def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    if arguments.verb == "waiting":
        return _list_waiting(api, arguments)
    if arguments.repository is None:
        repositories: list[Any] = api.list_once("repositories")
    else:
        repositories = [resolve_repository(api, arguments.repository)]
    if arguments.verb == "list":
        deliveries: list[dict[str, Any]] = []
        for repository in repositories:
            deliveries += api.get_all("repositories", repository["id"], "deliveries", limit=arguments.limit)
        deliveries.sort(key=lambda delivery: -int(delivery["id"]))
        projects = {row["id"]: str(row["project"]["slug"]) for row in repositories}
        return print_result(
            arguments, deliveries[: arguments.limit], lambda rows: _show_list(arguments, rows, projects)
        )
    found = request_first(repositories, lambda row: _request(api, arguments, row))
    if found is None:
        raise NoSuchName(
            f"There is no delivery {arguments.id} of the last 7 days. `pharos webhooks list` lists them; those of a "
            "disconnected repository with --repository."
        )
    repository, delivery = found
    if arguments.verb == "show":
        return print_result(arguments, delivery, lambda found: _show_one(found, repository))
    slugs = {int(repository["id"]): str(repository["project"]["slug"])}
    return print_result(arguments, delivery, lambda replay: _show_list(arguments, [replay], slugs))


def _request(api: Api, arguments: argparse.Namespace, repository: Row) -> Any:
    path = ("repositories", repository["id"], "deliveries", arguments.id)
    return api.get(*path) if arguments.verb == "show" else api.post(*path, "replay")


def _list_waiting(api: Api, arguments: argparse.Namespace) -> int:
    waiting: list[dict[str, Any]] = []
    slugs: dict[int, str] = {}
    for project in list_projects(api, arguments.project):
        pushes = api.get_all("projects", project.id, "waiting-pushes")
        slugs |= {int(push["id"]): project.slug for push in pushes}
        waiting += pushes
    # In the order in which they will be deployed.
    waiting.sort(key=lambda push: int(push["id"]))
    return print_result(arguments, waiting, lambda rows: _show_waiting(arguments, rows, slugs))


def _show_list(arguments: argparse.Namespace, rows: list[dict[str, Any]], slugs: Mapping[int, str]) -> None:
    # Imported here and below: rich is slow to import, and --json needs none of it.
    from operator_cli.repositories.tables import show_deliveries

    show_deliveries(arguments, rows, slugs)


def _show_one(delivery: dict[str, Any], repository: Row) -> None:
    from operator_cli.repositories.tables import show_delivery

    show_delivery(delivery, repository)


def _show_waiting(
    arguments: argparse.Namespace, rows: list[dict[str, Any]], slugs: Mapping[int, str]
) -> None:
    from operator_cli.repositories.tables import show_waiting_pushes

    show_waiting_pushes(arguments, rows, slugs)
