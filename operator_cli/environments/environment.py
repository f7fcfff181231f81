"""Commands `pharos environment …`, `lock` and `unlock`."""

import argparse
from functools import partial
from typing import Any

from operator_cli.arguments import (
    ON_OFF,
    add_approval_arguments,
    add_environment_argument,
    add_project_argument,
    add_subcommands,
    add_yes_argument,
    confirm,
    read_approval_arguments,
)
from operator_cli.control_client import WHICH_INSTALLATION, add_data_and_json_arguments, request_action
from operator_cli.messages import print_result, qualify_commands

_SUBCOMMANDS = {
    "list": "list environments with their state and whether they accept deployments",
    "show": "show one with its lock, window, approvals, live release and variables",
    "create": "create an environment; `pharos keys create` gives it an ingest key",
    "set": "change its name, branch, order, deploy window, approvals, or what wakes it",
    "scale": "set the number of replicas",
    "hibernate": "stop its processes until it is woken",
    "wake": "start its processes again",
    "resume": "let pushes deploy again after a rollback, which blocks them until then or until a manual deployment",
    "remove": "remove it with its keys, monitors, variables and releases; deployments and telemetry stay",
}
_TYPES = ("production", "staging", "development", "preview")


def register_environment(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "environment",
        help="create, list, show, change and remove environments",
        description="Environments: where a project runs, and what its telemetry is filed under. These commands store "
        f"the desired state of an environment; the deployer applies it. {WHICH_INSTALLATION}",
    )
    add_subcommands(parser, _SUBCOMMANDS, _run, _add_arguments)


def _add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    if name not in ("list", "create"):
        add_environment_argument(parser)
    match name:
        case "list":
            add_project_argument(parser, "of this project only: prj_…, its number or slug")
        case "create":
            _add_create_arguments(parser)
        case "set":
            _add_set_arguments(parser)
        case "scale":
            parser.add_argument("replicas", type=int, metavar="N", help="1 to 20")
        case "remove":
            add_approval_arguments(parser)
            add_yes_argument(parser)


def _add_create_arguments(create: argparse.ArgumentParser) -> None:
    create.add_argument("name", metavar="NAME", help="what it is called")
    create.add_argument("--type", choices=_TYPES, required=True, help="what it is for")
    create.add_argument("--slug", help="its short name in commands (made from the name)")
    add_project_argument(create, "prj_…, its number or slug; may be left out where there is only one")
    create.add_argument(
        "--order",
        type=int,
        metavar="N",
        help="deployments are promoted to a higher one (preview 0, development 1, staging 2, production 3)",
    )
    create.add_argument(
        "--branch", metavar="BRANCH", help="the branch to deploy here (the repository's branch)"
    )


def _add_set_arguments(change: argparse.ArgumentParser) -> None:
    change.add_argument("--name", help="what it is called")
    branch = change.add_mutually_exclusive_group()
    branch.add_argument(
        "--branch", metavar="BRANCH", help="the branch to deploy unless a deployment names another"
    )
    branch.add_argument("--no-branch", action="store_true", help="deploy the repository's branch")
    change.add_argument(
        "--order", type=int, metavar="N", help="deployments are promoted to a higher one (0 to 1000)"
    )
    window = change.add_mutually_exclusive_group()
    window.add_argument(
        "--window", metavar="HOURS", help="deploy in these hours only: 'mon-thu 09:00-16:00 Europe/Oslo'"
    )
    window.add_argument("--no-window", action="store_true", help="deploy at any time")
    for name, subject in (("deploy", "deploys"), ("variable", "new variables")):
        change.add_argument(
            f"--{name}-approval", choices=ON_OFF, help=f"whether {subject} wait for a second person"
        )
    add_approval_arguments(change)
    change.add_argument(
        "--wake-on-request", choices=ON_OFF, help="whether the first request wakes it when it hibernates"
    )


def _run(arguments: argparse.Namespace) -> int:
    if arguments.subcommand == "remove" and not confirm(
        arguments,
        f"remove the environment {arguments.environment} with its keys, heartbeats, queues, variables and releases",
    ):
        return 1
    return print_result(arguments, _request(arguments), partial(_show, arguments.subcommand))


def _request(arguments: argparse.Namespace) -> Any:
    match arguments.subcommand:
        case "list":
            return request_action(arguments, "environments/list", {"project_id": arguments.project_id})
        case "create":
            names = ("name", "type", "slug", "project_id", "order", "branch")
            return request_action(
                arguments, "environments/create", {name: getattr(arguments, name) for name in names}
            )
    params = {"id": arguments.environment}
    match arguments.subcommand:
        case "set":
            return request_action(
                arguments,
                "environments/set",
                {**params, **_read_changes(arguments), **read_approval_arguments(arguments)},
            )
        case "scale":
            return request_action(arguments, "environments/scale", {**params, "replicas": arguments.replicas})
        case "hibernate" | "wake":
            state = "hibernated" if arguments.subcommand == "hibernate" else "running"
            return request_action(arguments, "environments/state", {**params, "state": state})
        case "remove":
            return request_action(
                arguments, "environments/remove", {**params, **read_approval_arguments(arguments)}
            )
    return request_action(arguments, f"environments/{arguments.subcommand}", params)


def _read_changes(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that arguments name. None removes the branch or the window."""
    names = ("name", "branch", "order", "window")
    changes = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    for name in ("branch", "window"):
        if getattr(arguments, f"no_{name}"):
            changes[name] = None
    for name in ("deploy_approval", "variable_approval", "wake_on_request"):
        if getattr(arguments, name) is not None:
            changes[name] = ON_OFF[getattr(arguments, name)]
    return changes


def _show(subcommand: str, result: Any) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.environments.tables import show_environment, show_environments, show_removed

    match subcommand:
        case "list":
            show_environments(result)
        case "show" | "set":
            show_environment(result)
        case "create":
            print(f"Environment {environment_path(result)} is created: {result['id']}.")
            print(
                qualify_commands(
                    f"It has no ingest key yet; `pharos keys create --environment {result['id']}` creates one."
                )
            )
        case "scale":
            print(f"Environment {environment_path(result)} will have {result['desired_replicas']} replicas.")
        case "hibernate":
            print(f"Environment {environment_path(result)} will hibernate.")
        case "wake":
            print(f"Environment {environment_path(result)} will run.")
        case "resume":
            print(_describe_resumed(result))
        case "remove":
            show_removed(result)


def _describe_resumed(result: dict[str, Any]) -> str:
    if not result["resumed"]:
        return f"Environment {environment_path(result)} was not held; nothing was changed."
    return f"Environment {environment_path(result)} takes pushes again: the next one deploys."


def environment_path(environment: dict[str, Any]) -> str:
    """Return `PROJECT/SLUG`, as commands accept it."""
    return f"{environment['project']['slug']}/{environment['slug']}"


def register_lock(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "lock",
        help="block deployments to an environment",
        description="Block deployments, rollbacks and promotions to an environment until `pharos unlock`. Deployments "
        "that are queued already wait as well. If the environment is locked already, the command fails and shows who "
        f"locked it and why. {WHICH_INSTALLATION}",
    )
    add_environment_argument(parser)
    parser.add_argument("--reason", required=True, metavar="TEXT", help="the reason that others see")
    parser.add_argument("--by", metavar="EMAIL", help="who locks it; somebody who may deploy in the project")
    add_data_and_json_arguments(parser)
    parser.set_defaults(run=_lock)


def _lock(arguments: argparse.Namespace) -> int:
    params = {"id": arguments.environment, "reason": arguments.reason, "by": arguments.by}
    return print_result(arguments, request_action(arguments, "environments/lock", params), _show_locked)


def _show_locked(result: dict[str, Any]) -> None:
    # Imported here and below: rich is slow to import, and --json needs none of it.
    from operator_cli.terminal_text import sanitize

    print(f"Environment {environment_path(result)} is locked: {sanitize(result['lock']['reason'])}")


def register_unlock(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "unlock",
        help="allow deployments to an environment again",
        description="Remove the lock of an environment, no matter who set it, and show who set it and why. Without a "
        f"lock nothing changes. {WHICH_INSTALLATION}",
    )
    add_environment_argument(parser)
    add_data_and_json_arguments(parser)
    parser.set_defaults(run=_unlock)


def _unlock(arguments: argparse.Namespace) -> int:
    return print_result(
        arguments,
        request_action(arguments, "environments/unlock", {"id": arguments.environment}),
        _show_unlocked,
    )


def _show_unlocked(result: dict[str, Any]) -> None:
    from operator_cli.terminal_text import sanitize

    lock = result["was"]
    if lock is None:
        print(f"Environment {environment_path(result)} was not locked.")
    else:
        by = lock["by"] or "an operator"
        reason = sanitize(lock["reason"])
        print(f"Environment {environment_path(result)} is unlocked. It was locked by {by}: {reason}")
