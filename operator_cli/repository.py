"""`pharos repository list|connect|set-branch|disconnect`."""

import argparse
from functools import partial
from typing import Any

from operator_cli.actions import add_actions
from operator_cli.ask import WHICH, ask
from operator_cli.confirm import add_yes_argument, confirmed
from operator_cli.environment import add_project_argument
from operator_cli.tell import tell

_ACTIONS = {
    "list": "show each with the project that it is deployed to",
    "connect": "deploy a project from one",
    "set-branch": "deploy another branch where neither a deploy nor its environment names one",
    "disconnect": "deploy its project from it no more; not while a deployment is active",
}
_KINDS = ("github", "gitlab", "bitbucket", "git")


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "repository",
        help="connect projects to the Git repositories that they are deployed from",
        description=f"Git repositories: where projects are deployed from. A project has one at a time. {WHICH}",
    )
    add_actions(parser, _ACTIONS, _run, _add_arguments)


def _add_arguments(action: argparse.ArgumentParser, name: str) -> None:
    match name:
        case "connect":
            _add_connect_arguments(action)
        case "set-branch":
            action.add_argument("id", type=int, metavar="ID", help="ID as `list` shows it")
            action.add_argument("branch", metavar="BRANCH", help="its name: main")
        case "disconnect":
            action.add_argument("id", type=int, metavar="ID", help="ID as `list` shows it")
            add_yes_argument(action)


def _add_connect_arguments(connect: argparse.ArgumentParser) -> None:
    connect.add_argument(
        "url",
        metavar="URL",
        help="https://host/path, ssh://git@host/path, git@host:path, or an absolute path of the machine that deploys. "
        "Without a password or token: give that machine a deploy key or a Git credential",
    )
    connect.add_argument(
        "--kind", choices=_KINDS, help="who hosts it (told from a well-known host, else git)"
    )
    connect.add_argument("--branch", metavar="BRANCH", default="main", help="what is deployed (main)")
    add_project_argument(connect, "prj_…, its number or slug; may be left out where there is only one")


def _run(arguments: argparse.Namespace) -> int:
    if arguments.action == "disconnect" and not confirmed(
        arguments, f"disconnect repository {arguments.id}, so that its project cannot be deployed"
    ):
        return 1
    return tell(arguments, _ask(arguments), partial(_show, arguments.action))


def _show(action: str, told: Any) -> None:
    match action:
        case "list":
            _show_list(told)
        case "connect":
            print(
                f"Repository {told['id']}: the project {told['project']['slug']} is deployed from {told['url']}, "
                f"branch {told['branch']} ({told['kind']})."
            )
        case "set-branch":
            print(f"Repository {told['id']} is deployed from the branch {told['branch']}.")
        case "disconnect":
            print(f"Repository {told['id']} is disconnected from the project {told['project']['slug']}.")


def _ask(arguments: argparse.Namespace) -> Any:
    match arguments.action:
        case "list":
            return ask(arguments, "repositories/list")
        case "connect":
            names = ("url", "kind", "branch", "project_id")
            return ask(arguments, "repositories/connect", {name: getattr(arguments, name) for name in names})
        case "set-branch":
            wanted = {"id": arguments.id, "branch": arguments.branch}
            return ask(arguments, "repositories/set-branch", wanted)
    return ask(arguments, "repositories/disconnect", {"id": arguments.id})


def _show_list(repositories: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    from operator_cli.plain_text import cell

    if not repositories:
        print("No repositories yet. `pharos repository connect URL` connects one.")
        return
    table = Table("ID", "Project", "Kind", "Branch", "Address", box=None, pad_edge=False)
    table.columns[4].overflow = "fold"
    for repository in repositories:
        table.add_row(
            str(repository["id"]),
            cell(repository["project"]["slug"]),
            repository["kind"],
            cell(repository["branch"], most=60),
            cell(repository["url"]),
        )
    Console().print(table)
