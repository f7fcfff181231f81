"""`pharos repository list|connect|new-secret|set-branch|set|disconnect`."""

import argparse
from functools import partial
from typing import Any

from git_hosts.all_hosts import HOSTS
from operator_cli.arguments import ON_OFF, add_project_argument, add_subcommands, add_yes_argument, confirm
from operator_cli.control_client import WHICH_INSTALLATION, request_action
from operator_cli.messages import print_result
from operator_cli.repositories.webhook_setup import (
    add_secret_arguments,
    add_webhook_url,
    read_secret_params,
    show_webhook,
)

_SUBCOMMANDS = {
    "list": "list repositories with their projects and whether their webhooks are processed",
    "connect": "connect a project to a repository; the secret of the webhook is shown once",
    "new-secret": "replace the secret of its webhook; deliveries signed with the old one are refused from then on",
    "set-branch": "set the branch to deploy when neither a deployment nor its environment names one",
    "set": "set whether its webhooks are processed, whether pull requests from forks get previews, and its ID",
    "disconnect": "disconnect it from its project; not while a deployment is active, and deployments that wait for "
    "approval are canceled",
}
_KINDS = (*HOSTS, "git")


def register_repository(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "repository",
        help="connect projects to the Git repositories that they are deployed from",
        description="Git repositories: where projects are deployed from. A project has one at a time. "
        f"{WHICH_INSTALLATION}",
    )
    add_subcommands(parser, _SUBCOMMANDS, _run, _add_arguments)


def _add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    if name not in ("list", "connect"):
        parser.add_argument("id", type=int, metavar="ID", help="ID as `list` shows it")
    match name:
        case "connect":
            _add_connect_arguments(parser)
        case "new-secret":
            add_secret_arguments(parser)
            parser.add_argument(
                "--signing",
                action="store_true",
                help="GitLab only: replace a plain secret with a signing token",
            )
        case "set-branch":
            parser.add_argument("branch", metavar="BRANCH", help="its name: main")
        case "set":
            parser.add_argument("--push-deploys", choices=ON_OFF, help="whether its webhooks are processed")
            parser.add_argument(
                "--forks",
                choices=ON_OFF,
                help="whether pull requests from forks get previews: anybody may open one, and its code runs here",
            )
            parser.add_argument(
                "--host-id",
                metavar="ID",
                help="repository ID at the Git host, as `pharos webhooks show` prints it: only deliveries with this ID "
                "deploy. auto: learn it from the next delivery",
            )
        case "disconnect":
            add_yes_argument(parser)


def _add_connect_arguments(connect: argparse.ArgumentParser) -> None:
    connect.add_argument(
        "url",
        metavar="URL",
        help="https://host/path, ssh://git@host/path, git@host:path, or an absolute path of the machine that deploys. "
        "Without a password or token: give that machine a deploy key or a Git credential",
    )
    connect.add_argument(
        "--kind", choices=_KINDS, help="its Git host (recognized from a well-known address, else git)"
    )
    connect.add_argument("--branch", metavar="BRANCH", default="main", help="the branch to deploy (main)")
    add_project_argument(connect, "prj_…, its number or slug; may be left out where there is only one")
    add_secret_arguments(connect)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.subcommand == "disconnect" and not confirm(
        arguments, f"disconnect repository {arguments.id}, so that its project cannot be deployed"
    ):
        return 1
    return print_result(arguments, _request(arguments), partial(_show, arguments.subcommand))


def _show(subcommand: str, result: Any) -> None:
    match subcommand:
        case "list":
            # Imported here: rich is slow to import, and --json needs none of it.
            from operator_cli.repositories.tables import show_repositories

            show_repositories(result)
        case "connect":
            print(
                f"Repository {result['id']}: the project {result['project']['slug']} is deployed from {result['url']}, "
                f"branch {result['branch']} ({result['kind']})."
            )
            show_webhook(result)
        case "new-secret":
            print(
                f"Repository {result['id']} has a new secret. Deliveries signed with the old one are refused."
            )
            show_webhook(result)
        case "set-branch":
            print(f"Repository {result['id']} is deployed from the branch {result['branch']}.")
        case "set":
            print(_describe_settings(result))
        case "disconnect":
            print(f"Repository {result['id']} is disconnected from the project {result['project']['slug']}.")


def _describe_settings(result: dict[str, Any]) -> str:
    if not result["push_deploys"]:
        return f"Repository {result['id']}: its webhooks are not processed."
    forks = "pull requests from forks get previews" if result["forks"] else "those from forks get none"
    known = "" if result["host_id"] is None else f" Its ID at its host is {result['host_id']}."
    return f"Repository {result['id']}: pushes deploy, and pull requests get previews; {forks}.{known}"


def _request(arguments: argparse.Namespace) -> Any:
    action = f"repositories/{arguments.subcommand}"
    match arguments.subcommand:
        case "list":
            return request_action(arguments, action)
        case "connect":
            names = ("url", "kind", "branch", "project_id")
            params = {name: getattr(arguments, name) for name in names}
            result = request_action(arguments, action, {**params, **read_secret_params(arguments)})
            return add_webhook_url(arguments, result, is_new=True)
        case "new-secret":
            params = {"id": arguments.id, "signing": arguments.signing, **read_secret_params(arguments)}
            result = request_action(arguments, action, params)
            return add_webhook_url(arguments, result, is_new=False)
        case "set-branch":
            return request_action(arguments, action, {"id": arguments.id, "branch": arguments.branch})
        case "set":
            words = {"push_deploys": arguments.push_deploys, "forks": arguments.forks}
            switches = {name: ON_OFF[word] for name, word in words.items() if word is not None}
            host_id = {} if arguments.host_id is None else {"host_id": arguments.host_id}
            return request_action(arguments, action, {"id": arguments.id, **switches, **host_id})
    return request_action(arguments, action, {"id": arguments.id})
