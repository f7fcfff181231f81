"""Print projects as tables."""

from typing import Any

from rich.console import Console
from rich.table import Table

from operator_cli.messages import qualify_commands
from operator_cli.terminal_text import make_cell, print_facts


def show_projects(projects: list[dict[str, Any]]) -> None:
    """Print projects with their accounts and environments."""
    if not projects:
        print(qualify_commands("No projects yet. `pharos project create NAME` makes one."))
        return
    table = Table("ID", "Name", "Slug", "Account", "Environments", box=None, pad_edge=False)
    for project in projects:
        table.add_row(
            str(project["number"]),
            make_cell(project["name"]),
            project["slug"],
            project["account"]["slug"],
            ", ".join(environment["slug"] for environment in project["environments"]) or "none yet",
        )
    Console().print(table)


def show_project(project: dict[str, Any]) -> None:
    """Print one project with its repository, sites, environments and roles."""
    account, repository = project["account"], project["repository"]
    print_facts(
        project["name"],
        {
            "ID": f"{project['number']}, {project['id']}",
            "slug": project["slug"],
            "account": f"{account['slug']} ({account['id']})",
            "repository": "none connected"
            if repository is None
            else f"{repository['url']} ({repository['kind']}), branch {repository['branch']}",
            "sites": ", ".join(f"{site['id']} {site['name']}" for site in project["sites"]) or "none yet",
        },
    )
    if project["environments"]:
        table = Table("Environment", "ID", "Type", "State", "Replicas", box=None, pad_edge=False)
        table.columns[1].no_wrap = True
        for environment in project["environments"]:
            table.add_row(
                environment["slug"],
                environment["id"],
                environment["type"],
                environment["state"],
                str(environment["desired_replicas"]),
            )
        Console().print(table)
    else:
        print(qualify_commands("No environments yet. `pharos environment create` makes one."))
    if project["people"]:
        table = Table("Role", "Name", "E-mail", box=None, pad_edge=False)
        for person in project["people"]:
            table.add_row(person["role"], make_cell(person["name"]), make_cell(person["email"]))
        Console().print(table)
    else:
        print(
            qualify_commands(
                "Nobody has a role in it: owners and admins of the account may do everything. "
                f"`pharos project grant {project['slug']} EMAIL --role deployer` gives one."
            )
        )
