"""`pharos repository list|show|connect|new-secret|set-branch|set|disconnect`."""

import argparse
import os
import shlex
from typing import Any

from operator_cli.api.client import Api, open_api
from operator_cli.api.names import Row, resolve_project
from operator_cli.api.problems import ApiRefused
from operator_cli.arguments import (
    ON_OFF,
    add_project_argument,
    add_verbs,
    add_yes_argument,
    confirm,
)
from operator_cli.errors import CommandFailed, UsageError
from operator_cli.messages import print_result
from operator_cli.repositories.find import HELP, add_repository_argument, resolve_repository
from operator_cli.repositories.webhook_setup import (
    add_secret_arguments,
    read_secret,
    save_secret,
    show_webhook,
)

_VERBS = {
    "list": "list repositories with their projects and whether their webhooks are processed",
    "show": "show a repository with all its settings",
    "connect": "connect a project to a repository; the secret of the webhook is shown once",
    "new-secret": "replace the secret of the webhook; deliveries signed with the old secret are then refused",
    "set-branch": "set the branch to deploy if neither a deployment nor its environment names one",
    "set": "change the branch, whether webhooks are processed, whether pull requests from forks get previews, and the "
    "ID at the Git host",
    "disconnect": "disconnect a repository from its project; fails while a deployment is active, and cancels "
    "deployments that wait for approval",
}
# The same kinds as in `git_hosts.all_hosts`, which takes 0.1 s to import.
_KINDS = ("github", "gitlab", "bitbucket", "git")
_LEARN_HOST_ID = "auto"


def register_repository(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "repository",
        help="Git repositories that projects are deployed from",
        description="Git repositories from which projects are deployed. A project has one at a time.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments)


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    match verb:
        case "list":
            return
        case "connect":
            _add_connect_arguments(parser)
            return
        case "show":
            parser.add_argument(
                "repository", nargs="?", metavar="REPOSITORY", help=f"{HELP}; by default the only one"
            )
            return
    add_repository_argument(parser)
    match verb:
        case "new-secret":
            add_secret_arguments(parser)
        case "set-branch":
            parser.add_argument("branch", metavar="BRANCH", help="the name of the branch: main")
        case "set":
            _add_settings(parser)
        case "disconnect":
            add_yes_argument(parser)


def _add_connect_arguments(connect: argparse.ArgumentParser) -> None:
    connect.add_argument(
        "url",
        metavar="URL",
        help="https://host/path, ssh://git@host/path, git@host:path, or a path on the machine that deploys. "
        "Without a password or token: give that machine a deploy key or a Git credential",
    )
    connect.add_argument(
        "--kind", choices=_KINDS, help="the Git host (recognized from a well-known address, else git)"
    )
    connect.add_argument("--branch", metavar="BRANCH", help="the branch to deploy (main)")
    add_project_argument(connect, dest="project")
    add_secret_arguments(connect)


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--branch", metavar="BRANCH", help="as `set-branch` does")
    parser.add_argument("--push-deploys", choices=ON_OFF, help="whether its webhooks are processed")
    parser.add_argument(
        "--forks",
        choices=ON_OFF,
        help="whether pull requests from forks get previews: anybody may open one, and its code runs here",
    )
    parser.add_argument(
        "--host-id",
        metavar="ID",
        help="repository ID at the Git host, which `pharos webhooks show` prints: only deliveries "
        f"with this ID deploy. {_LEARN_HOST_ID}: learn it from the next delivery",
    )


def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    match arguments.verb:
        case "list":
            return print_result(
                arguments, api.get_all("repositories"), lambda rows: _show_list(arguments, rows)
            )
        case "connect":
            return print_result(arguments, _connect(api, arguments), _show_connected, quiet="webhook.secret")
    repository = resolve_repository(api, arguments.repository)
    match arguments.verb:
        case "show":
            return print_result(arguments, api.get("repositories", repository["id"]), _show_one)
        case "new-secret":
            return print_result(
                arguments, _renew_secret(api, arguments, repository), _show_new_secret, quiet="webhook.secret"
            )
        case "disconnect":
            return _disconnect(api, arguments, repository)
    changes = {"branch": arguments.branch} if arguments.verb == "set-branch" else _read_changes(arguments)
    return print_result(arguments, api.patch("repositories", repository["id"], body=changes), _show_changed)


def _connect(api: Api, arguments: argparse.Namespace) -> dict[str, Any]:
    body = {
        "url": _find_address(api, arguments.url),
        "kind": arguments.kind,
        "branch": arguments.branch,
        **read_secret(arguments),
    }
    project = resolve_project(api, arguments.project)
    try:
        made: dict[str, Any] = api.post("projects", project.id, "repository", body=body)
    except ApiRefused as error:
        if "disconnect that repository first" in str(error):
            error.args = (f"{error} `pharos repository disconnect {project.slug}` does that.",)
        raise
    save_secret(api.target, made, is_new=True)
    return made


def _find_address(api: Api, url: str) -> str:
    """Return the URL; for a relative path (`.`, `../shop`) the absolute one.

    Raises `CommandFailed` for a folder without a repository, if the installation is on this machine.
    """
    if url in (".", "..") or url.startswith(("./", "../")):
        url = os.path.abspath(url)
    is_here = api.target.data is not None and os.path.isdir(url)
    # A bare repository has no `.git`.
    if is_here and not any(os.path.exists(os.path.join(url, name)) for name in (".git", "HEAD")):
        folder = shlex.quote(url)
        raise CommandFailed(
            f"{url} is not a Git repository. Make it one, and commit its files: `git -C {folder} init`, "
            f"`git -C {folder} add .`, `git -C {folder} commit -m First`."
        )
    return url


def _renew_secret(api: Api, arguments: argparse.Namespace, repository: Row) -> dict[str, Any]:
    body = read_secret(arguments)
    renewed: dict[str, Any] = api.post("repositories", repository["id"], "webhook-secret", body=body)
    save_secret(api.target, renewed, is_new=False)
    return renewed


def _disconnect(api: Api, arguments: argparse.Namespace, repository: Row) -> int:
    slug, number = repository["project"]["slug"], repository["id"]
    if not confirm(
        arguments, f"disconnect {repository['url']} from the project {slug}, so that it cannot be deployed"
    ):
        return 1
    return print_result(
        arguments,
        api.delete("repositories", number),
        lambda _: print(f"Repository {number} is disconnected from the project {slug}."),
    )


def _read_changes(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings to change. Raises `UsageError` if there are none."""
    switches = {"push_deploys": arguments.push_deploys, "forks": arguments.forks}
    changes: dict[str, Any] = {name: ON_OFF[word] for name, word in switches.items() if word is not None}
    if arguments.branch is not None:
        changes["branch"] = arguments.branch
    if arguments.host_id is not None:
        changes["host_id"] = None if arguments.host_id == _LEARN_HOST_ID else arguments.host_id
    if not changes:
        raise UsageError("Nothing to change. Give --branch, --push-deploys, --forks or --host-id.")
    return changes


def _show_list(arguments: argparse.Namespace, repositories: list[dict[str, Any]]) -> None:
    # Imported here and below: rich is slow to import, and --json needs none of it.
    from operator_cli.repositories.tables import show_repositories

    show_repositories(arguments, repositories)


def _show_one(repository: dict[str, Any]) -> None:
    from operator_cli.repositories.tables import show_repository

    show_repository(repository)


def _show_connected(repository: dict[str, Any]) -> None:
    print(
        f"Repository {repository['id']}: the project {repository['project']['slug']} is deployed from "
        f"{repository['url']}, branch {repository['branch']} ({repository['kind']})."
    )
    show_webhook(repository)


def _show_new_secret(repository: dict[str, Any]) -> None:
    print(f"Repository {repository['id']} has a new secret. Deliveries signed with the old one are refused.")
    show_webhook(repository)


def _show_changed(repository: dict[str, Any]) -> None:
    from operator_cli.repositories.tables import describe_webhooks

    print(
        f"Repository {repository['id']} of the project {repository['project']['slug']}: branch {repository['branch']}; "
        f"webhooks: {describe_webhooks(repository)}."
    )
