"""`pharos project list|show|create|grant|revoke|remove`."""

import argparse
from typing import Any

from operator_cli.arguments import add_account_argument, add_subcommands, add_yes_argument, confirm
from operator_cli.control_client import WHICH_INSTALLATION, request_action
from operator_cli.messages import print_result

_SUBCOMMANDS = {
    "list": "list projects with their environments",
    "show": "show one with its environments, repository, sites and people",
    "create": "create a project; `pharos environment create` gives it environments",
    "grant": "give a member of its account a role in it, in place of the previous one",
    "revoke": "remove a person's role in it",
    "remove": "remove one that has neither environments nor sites, with its deployments and their logs",
}
_ROLES = ("viewer", "deployer", "maintainer")


def register_project(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "project",
        help="create, list, show and remove projects, and set who may deploy them",
        description="Projects: applications with their environments. A viewer reads; a deployer deploys, scales and "
        f"sets variables as well; a maintainer also approves and rejects. {WHICH_INSTALLATION}",
    )
    add_subcommands(parser, _SUBCOMMANDS, _run, _add_arguments)


def _add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    if name not in ("list", "create"):
        parser.add_argument("id", metavar="ID", help="number, prj_… or slug")
    match name:
        case "list":
            add_account_argument(parser, is_filter=True)
        case "create":
            parser.add_argument("name", metavar="NAME", help="what it is called")
            parser.add_argument("--slug", help="its short name in commands (made from the name)")
            add_account_argument(parser, is_filter=False)
        case "grant" | "revoke":
            parser.add_argument("email", metavar="EMAIL", help="the person's address")
            if name == "grant":
                parser.add_argument("--role", required=True, choices=_ROLES, help="what they may do there")
        case "remove":
            add_yes_argument(parser)


def _run(arguments: argparse.Namespace) -> int:
    match arguments.subcommand:
        case "list":
            return print_result(arguments, _request(arguments, "list", "account_id"), _show_list)
        case "show":
            return print_result(arguments, _request(arguments, "show", "id"), _show_one)
        case "create":
            return print_result(
                arguments, _request(arguments, "create", "name", "slug", "account_id"), _show_created
            )
        case "grant":
            return print_result(arguments, _request(arguments, "grant", "id", "email", "role"), _show_role)
        case "revoke":
            return print_result(arguments, _request(arguments, "revoke", "id", "email"), _show_role)
    consequence = (
        f"remove project {arguments.id} with its deployments, their logs, its repositories and roles"
    )
    if not confirm(arguments, consequence):
        return 1
    return print_result(arguments, _request(arguments, "remove", "id"), _show_removed)


def _request(arguments: argparse.Namespace, action: str, *names: str) -> Any:
    return request_action(arguments, f"projects/{action}", {name: getattr(arguments, name) for name in names})


def _show_list(projects: list[dict[str, Any]]) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.projects.tables import show_projects

    show_projects(projects)


def _show_one(project: dict[str, Any]) -> None:
    from operator_cli.projects.tables import show_project

    show_project(project)


def _show_created(project: dict[str, Any]) -> None:
    print(
        f"Project {project['number']}, {project['id']}, is {project['slug']} of the account "
        f"{project['account']['slug']}."
    )


def _show_role(result: dict[str, Any]) -> None:
    role = "has no role" if result["role"] is None else f"is {result['role']}"
    print(f"{result['person']['email']} {role} in the project {result['slug']}.")


def _show_removed(project: dict[str, Any]) -> None:
    print(f"The project {project['slug']} is removed; deployments removed: {project['deployments_removed']}.")
