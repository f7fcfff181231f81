"""Print projects as tables."""

import argparse
from typing import Any

from operator_cli.tables import Column, print_table
from operator_cli.terminal_text import print_facts


def show_projects(arguments: argparse.Namespace, projects: list[dict[str, Any]]) -> None:
    """Print projects with their environments."""
    print_table(
        arguments,
        [
            Column("Project", wraps=False),
            Column("Name"),
            Column("Environments"),
            Column("ID", is_id=True, is_optional=True),
        ],
        [
            (
                project["slug"],
                project["name"],
                ", ".join(each["slug"] for each in project["environments"]) or "none yet",
                project["id"],
            )
            for project in projects
        ],
        empty="No projects yet. `pharos project create NAME` makes one.",
    )


def show_project(arguments: argparse.Namespace, project: dict[str, Any]) -> None:
    """Print one project with its repository, environments and members."""
    repositories = project["repositories"]
    print_facts(
        project["name"],
        {
            "slug": project["slug"],
            "ID": project["id"],
            "repository": "none connected; `pharos repository connect` connects one"
            if not repositories
            else ", ".join(
                f"{each['url']} ({each['kind']}), branch {each['branch']}" for each in repositories
            ),
        },
    )
    print()
    print_table(
        arguments,
        [
            Column("Environment", wraps=False),
            Column("Type", wraps=False),
            Column("State", wraps=False),
            Column("Replicas", wraps=False),
            Column("ID", is_id=True, is_optional=True),
        ],
        [
            (each["slug"], each["type"], each["state"], each["desired_replicas"], each["id"])
            for each in project["environments"]
        ],
        empty="No environments yet. `pharos environment create NAME` makes one.",
    )
    print()
    show_members(arguments, project["slug"], project["members"])


def show_members(arguments: argparse.Namespace, slug: str, members: list[dict[str, Any]]) -> None:
    """Print the people who have a role in a project."""
    print_table(
        arguments,
        [
            Column("Role", wraps=False),
            Column("Name"),
            Column("E-mail", wraps=False),
            Column("ID", is_id=True, is_optional=True),
        ],
        [
            (each["role"], each["person"]["name"], each["person"]["email"], each["person"]["id"])
            for each in members
        ],
        empty="Nobody has a role in it: owners and admins of the account may do everything. "
        f"`pharos project grant {slug} PERSON --role deployer` gives one.",
    )
