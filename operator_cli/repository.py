"""`pharos repository list|connect|new-secret|set-branch|set|disconnect`."""

import argparse
from functools import partial
from typing import Any

from git_hosts.all_hosts import HOSTS
from operator_cli.actions import add_actions
from operator_cli.ask import WHICH, ask
from operator_cli.confirm import add_yes_argument, confirmed
from operator_cli.environment import add_project_argument
from operator_cli.repository_webhook import (
    add_secret_arguments,
    complete_webhook,
    read_secret_wanted,
    show_webhook,
)
from operator_cli.switches import SWITCH
from operator_cli.tell import tell

_ACTIONS = {
    "list": "show each with the project that it is deployed to, and whether its webhooks are listened to",
    "connect": "deploy a project from one; the secret of its webhook is shown once",
    "new-secret": "give its webhook another secret; what is signed with the old one is refused from then on",
    "set-branch": "deploy another branch where neither a deploy nor its environment names one",
    "set": "say whether its webhooks are listened to, whether pull requests from forks get previews, and its ID",
    "disconnect": "deploy its project from it no more; not while a deployment is active, and those that wait for "
    "approval are canceled",
}
_KINDS = (*HOSTS, "git")


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "repository",
        help="connect projects to the Git repositories that they are deployed from",
        description=f"Git repositories: where projects are deployed from. A project has one at a time. {WHICH}",
    )
    add_actions(parser, _ACTIONS, _run, _add_arguments)


def _add_arguments(action: argparse.ArgumentParser, name: str) -> None:
    if name not in ("list", "connect"):
        action.add_argument("id", type=int, metavar="ID", help="ID as `list` shows it")
    match name:
        case "connect":
            _add_connect_arguments(action)
        case "new-secret":
            add_secret_arguments(action)
            action.add_argument(
                "--signing",
                action="store_true",
                help="GitLab only: replace a plain secret with a signing token",
            )
        case "set-branch":
            action.add_argument("branch", metavar="BRANCH", help="its name: main")
        case "set":
            action.add_argument("--push-deploys", choices=SWITCH, help="whether its webhooks are listened to")
            action.add_argument(
                "--forks",
                choices=SWITCH,
                help="whether pull requests from forks get previews: anybody may open one, and its code is run",
            )
            action.add_argument(
                "--host-id",
                metavar="ID",
                help="repository ID at the Git host, as `pharos webhooks show` prints it: only deliveries with this ID "
                "deploy. auto: learn it from the next delivery",
            )
        case "disconnect":
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
    add_secret_arguments(connect)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.action == "disconnect" and not confirmed(
        arguments, f"disconnect repository {arguments.id}, so that its project cannot be deployed"
    ):
        return 1
    return tell(arguments, _ask(arguments), partial(_show, arguments.action))


def _show(action: str, told: Any) -> None:
    match action:
        case "list":
            # Only here: a program that asks for JSON need not wait for what draws tables.
            from operator_cli.repository_tables import show_repositories

            show_repositories(told)
        case "connect":
            print(
                f"Repository {told['id']}: the project {told['project']['slug']} is deployed from {told['url']}, "
                f"branch {told['branch']} ({told['kind']})."
            )
            show_webhook(told)
        case "new-secret":
            print(f"Repository {told['id']} has another secret. What is signed with the old one is refused.")
            show_webhook(told)
        case "set-branch":
            print(f"Repository {told['id']} is deployed from the branch {told['branch']}.")
        case "set":
            print(_told_settings(told))
        case "disconnect":
            print(f"Repository {told['id']} is disconnected from the project {told['project']['slug']}.")


def _told_settings(told: dict[str, Any]) -> str:
    if not told["push_deploys"]:
        return f"Repository {told['id']}: its webhooks are not listened to."
    forks = "pull requests from forks get previews" if told["forks"] else "those from forks get none"
    known = "" if told["host_id"] is None else f" Its ID at its host is {told['host_id']}."
    return f"Repository {told['id']}: pushes deploy, and pull requests get previews; {forks}.{known}"


def _ask(arguments: argparse.Namespace) -> Any:
    action = f"repositories/{arguments.action}"
    match arguments.action:
        case "list":
            return ask(arguments, action)
        case "connect":
            names = ("url", "kind", "branch", "project_id")
            wanted = {name: getattr(arguments, name) for name in names}
            told = ask(arguments, action, {**wanted, **read_secret_wanted(arguments)})
            return complete_webhook(arguments, told, is_new=True)
        case "new-secret":
            wanted = {"id": arguments.id, "signing": arguments.signing, **read_secret_wanted(arguments)}
            told = ask(arguments, action, wanted)
            return complete_webhook(arguments, told, is_new=False)
        case "set-branch":
            return ask(arguments, action, {"id": arguments.id, "branch": arguments.branch})
        case "set":
            given = {"push_deploys": arguments.push_deploys, "forks": arguments.forks}
            switches = {name: SWITCH[value] for name, value in given.items() if value is not None}
            host_id = {} if arguments.host_id is None else {"host_id": arguments.host_id}
            return ask(arguments, action, {"id": arguments.id, **switches, **host_id})
    return ask(arguments, action, {"id": arguments.id})
