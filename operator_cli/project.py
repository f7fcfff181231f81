"""`pharos project list|show|create|grant|revoke|remove`."""

import argparse
from typing import Any

from operator_cli.actions import add_actions
from operator_cli.ask import WHICH, ask
from operator_cli.confirm import add_yes_argument, confirmed
from operator_cli.person import add_account_argument
from operator_cli.tell import tell

_ACTIONS = {
    "list": "show each with its environments",
    "show": "show one with its environments, repository, sites and people",
    "create": "make one; `pharos environment create` gives it environments",
    "grant": "give a member of its account a role in it, in place of the one before",
    "revoke": "take somebody's role in it",
    "remove": "remove one that has neither environments nor sites, with its deployments and their logs",
}
_ROLES = ("viewer", "deployer", "maintainer")


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "project",
        help="make, list, show and remove projects, and say who may deploy them",
        description="Projects: applications with their environments. A viewer reads; a deployer deploys, scales and "
        f"sets variables as well; a maintainer also approves and rejects. {WHICH}",
    )
    add_actions(parser, _ACTIONS, _run, _add_arguments)


def _add_arguments(action: argparse.ArgumentParser, name: str) -> None:
    if name not in ("list", "create"):
        action.add_argument("id", metavar="ID", help="number, prj_… or slug")
    match name:
        case "list":
            add_account_argument(action, is_filter=True)
        case "create":
            action.add_argument("name", metavar="NAME", help="what it is called")
            action.add_argument("--slug", help="its short name in commands (made from the name)")
            add_account_argument(action, is_filter=False)
        case "grant" | "revoke":
            action.add_argument("email", metavar="EMAIL", help="the person's address")
            if name == "grant":
                action.add_argument("--role", required=True, choices=_ROLES, help="what they may do there")
        case "remove":
            add_yes_argument(action)


def _run(arguments: argparse.Namespace) -> int:
    match arguments.action:
        case "list":
            return tell(arguments, _ask(arguments, "list", "account_id"), _show_list)
        case "show":
            return tell(arguments, _ask(arguments, "show", "id"), _show_one)
        case "create":
            return tell(arguments, _ask(arguments, "create", "name", "slug", "account_id"), _show_made)
        case "grant":
            return tell(arguments, _ask(arguments, "grant", "id", "email", "role"), _show_role)
        case "revoke":
            return tell(arguments, _ask(arguments, "revoke", "id", "email"), _show_role)
    what = f"remove project {arguments.id} with its deployments, their logs, its repositories and roles"
    if not confirmed(arguments, what):
        return 1
    return tell(arguments, _ask(arguments, "remove", "id"), _show_removed)


def _ask(arguments: argparse.Namespace, action: str, *names: str) -> Any:
    return ask(arguments, f"projects/{action}", {name: getattr(arguments, name) for name in names})


def _show_list(projects: list[dict[str, Any]]) -> None:
    # Only here: a program that asks for JSON need not wait for what draws tables.
    from operator_cli.project_tables import show_projects

    show_projects(projects)


def _show_one(project: dict[str, Any]) -> None:
    from operator_cli.project_tables import show_project

    show_project(project)


def _show_made(project: dict[str, Any]) -> None:
    print(
        f"Project {project['number']}, {project['id']}, is {project['slug']} of the account "
        f"{project['account']['slug']}."
    )


def _show_role(told: dict[str, Any]) -> None:
    role = "has no role" if told["role"] is None else f"is {told['role']}"
    print(f"{told['person']['email']} {role} in the project {told['slug']}.")


def _show_removed(project: dict[str, Any]) -> None:
    print(f"The project {project['slug']} is removed; deployments removed: {project['deployments_removed']}.")
