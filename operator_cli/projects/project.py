"""`pharos project list|show|create|rename|members|grant|revoke|remove`."""

import argparse
from typing import Any

from operator_cli.accounts.find_person import find_person
from operator_cli.api.client import Api, open_api
from operator_cli.api.default_environment import Effect
from operator_cli.api.names import Project, resolve_project
from operator_cli.arguments import add_verbs, add_yes_argument, complete, confirm
from operator_cli.messages import print_result, qualify_commands

_VERBS = {
    "list": "list projects with their environments",
    "show": "show a project with its environments, repository and members",
    "create": "create a project",
    "rename": "change the name of a project",
    "members": "list the people who have a role in a project",
    "grant": "give a person of the account a role in a project, in place of the previous one",
    "revoke": "remove a person's role in a project",
    "remove": "remove a project that has neither environments nor sites",
}
_DESCRIPTIONS = {
    "create": "`pharos environment create` then gives it environments.",
    "rename": "Its slug stays, because URLs and documents refer to it.",
    "members": "Owners and admins of the account may do everything in every project, without a role.",
    "grant": "A viewer reads; a deployer also deploys, scales and sets variables; a maintainer also approves, and "
    "changes the project and its environments.",
    "remove": "Its deployments with their logs, its repositories and its roles are removed too.",
}
_ROLES = ("viewer", "deployer", "maintainer")


def register_project(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "project",
        help="projects and the people who may deploy them",
        description="A project is an application with its environments.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments, _DESCRIPTIONS)


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    if verb == "create":
        parser.add_argument("name", metavar="NAME", help="the name")
        parser.add_argument("--slug", help="the short name for commands (made from the name)")
        return
    if verb == "list":
        return
    project = parser.add_argument(
        "project",
        metavar="PROJECT",
        nargs="?" if verb in ("show", "members") else None,
        help="the project: its slug, name or ID"
        + (
            "; by default that of PHAROS_DEFAULT_ENVIRONMENT, or the only one"
            if verb in ("show", "members")
            else ""
        ),
    )
    complete(project, "project")
    if verb == "rename":
        parser.add_argument("name", metavar="NAME", help="the new name")
    if verb in ("grant", "revoke"):
        person = parser.add_argument("person", metavar="PERSON", help="e-mail address, name or ID")
        complete(person, "person")
    if verb == "grant":
        parser.add_argument("--role", required=True, choices=_ROLES, help="the role in the project")
    if verb == "remove":
        add_yes_argument(parser)


def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    match arguments.verb:
        case "list":
            return print_result(arguments, api.get_all("projects"), lambda rows: _show_list(arguments, rows))
        case "create":
            made = api.post("projects", body={"name": arguments.name, "slug": arguments.slug})
            return print_result(arguments, made, _show_created)
    effect = Effect.READS if arguments.verb in ("show", "members") else Effect.CHANGES
    project = resolve_project(api, arguments.project, option="", effect=effect)
    match arguments.verb:
        case "show":
            return print_result(arguments, _read(api, project), lambda found: _show_one(arguments, found))
        case "rename":
            renamed = api.patch("projects", project.id, body={"name": arguments.name})
            return print_result(
                arguments, renamed, lambda found: print(f"{found['slug']} is called {found['name']} now.")
            )
        case "members":
            members = api.get_all("projects", project.id, "members")
            return print_result(
                arguments,
                members,
                lambda rows: _show_members(arguments, project.slug, rows),
                quiet="person.id",
            )
        case "grant":
            member = api.put(*_member_path(api, project, arguments.person), body={"role": arguments.role})
            return print_result(
                arguments, member, lambda found: _show_role(found, project.slug), quiet="person.id"
            )
        case "revoke":
            member = api.delete(*_member_path(api, project, arguments.person))
            return print_result(
                arguments, member, lambda found: _show_role(found, project.slug), quiet="person.id"
            )
    consequence = (
        f"remove the project {project.slug} with its deployments, their logs, its repositories and roles"
    )
    if not confirm(arguments, consequence):
        return 1
    return print_result(arguments, api.delete("projects", project.id), _show_removed)


def _member_path(api: Api, project: Project, person: str) -> tuple[str, ...]:
    return "projects", project.id, "members", str(find_person(api, person)["id"])


def _read(api: Api, project: Project) -> dict[str, Any]:
    """Return the project with its repositories and members."""
    return {
        **api.get("projects", project.id),
        "repositories": api.get_all("repositories", query={"project": project.id}),
        "members": api.get_all("projects", project.id, "members"),
    }


def _show_list(arguments: argparse.Namespace, projects: list[dict[str, Any]]) -> None:
    # Imported here and below: rich is slow to import, and --json needs none of it.
    from operator_cli.projects.tables import show_projects

    show_projects(arguments, projects)


def _show_one(arguments: argparse.Namespace, project: dict[str, Any]) -> None:
    from operator_cli.projects.tables import show_project

    show_project(arguments, project)


def _show_members(arguments: argparse.Namespace, slug: str, members: list[dict[str, Any]]) -> None:
    from operator_cli.projects.tables import show_members

    show_members(arguments, slug, members)


def _show_created(project: dict[str, Any]) -> None:
    print(
        qualify_commands(
            f"Project {project['slug']} is created: {project['id']}. "
            f"`pharos environment create NAME --project {project['slug']}` gives it an environment."
        )
    )


def _show_role(member: dict[str, Any], slug: str) -> None:
    email = member["person"]["email"]
    role = "has no role" if member["role"] is None else f"is {member['role']}"
    print(f"{email} {role} in the project {slug}.")
    if member["account_role"] != "member":
        print(f"{email} is {member['account_role']} of the account and may do everything in it anyway.")


def _show_removed(project: dict[str, Any]) -> None:
    print(f"The project {project['slug']} is removed; deployments removed: {project['deployments']}.")
