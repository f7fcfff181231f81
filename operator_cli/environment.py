"""`pharos environment list|show|create|set|scale|hibernate|wake|resume|remove`."""

import argparse
from functools import partial
from typing import Any

from operator_cli.actions import add_actions
from operator_cli.ask import WHICH, ask
from operator_cli.confirm import add_yes_argument, confirmed
from operator_cli.switches import SWITCH
from operator_cli.tell import tell
from operator_cli.typed_commands import typed_commands

_ACTIONS = {
    "list": "show each with how it runs and whether it takes deploys",
    "show": "show one with its lock, window, approvals, live release and variables",
    "create": "make one; `pharos keys create` gives it an ingest key",
    "set": "change its name, branch, order, deploy window, approvals, or what wakes it",
    "scale": "want another number of replicas",
    "hibernate": "let nothing of it run until it is woken",
    "wake": "let it run again",
    "resume": "let pushes deploy again after a rollback, which holds them off until then or until a deploy by hand",
    "remove": "remove it with its keys, monitors, variables and releases; deployments and telemetry stay",
}
_TYPES = ("production", "staging", "development", "preview")


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "environment",
        help="make, list, show, change and remove environments",
        description="Environments: where a project runs, and what its telemetry is filed under. What is wanted of "
        f"one is written down here; the deployer brings it about. {WHICH}",
    )
    add_actions(parser, _ACTIONS, _run, _add_arguments)


def add_place_argument(parser: argparse.ArgumentParser) -> None:
    """Which environment."""
    parser.add_argument(
        "environment", metavar="ENVIRONMENT", help="env_…, its number, its slug, or PROJECT/SLUG"
    )


def add_project_argument(parser: argparse.ArgumentParser, help_: str) -> None:
    """`--project`."""
    parser.add_argument("--project", metavar="PROJECT", help=help_, dest="project_id")


def _add_arguments(action: argparse.ArgumentParser, name: str) -> None:
    if name not in ("list", "create"):
        add_place_argument(action)
    match name:
        case "list":
            add_project_argument(action, "of this project only: prj_…, its number or slug")
        case "create":
            _add_create_arguments(action)
        case "set":
            _add_set_arguments(action)
        case "scale":
            action.add_argument("replicas", type=int, metavar="N", help="1 to 20")
        case "remove":
            add_agreed_arguments(action)
            add_yes_argument(action)


def add_agreed_arguments(parser: argparse.ArgumentParser) -> None:
    """`--by` and `--approved-by`, for what lowers the gate of an environment."""
    parser.add_argument(
        "--by", metavar="EMAIL", help="who asks for it; needed where a second person has to agree"
    )
    parser.add_argument(
        "--approved-by",
        metavar="EMAIL",
        help="the second person, who agrees; needed where an environment that wants one is removed, or its approvals, "
        "deploy window or protection of variables are lowered",
    )


def read_agreed(arguments: argparse.Namespace) -> dict[str, Any]:
    """What `add_agreed_arguments` has read."""
    return {"by": arguments.by, "approved_by": arguments.approved_by}


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
    create.add_argument("--branch", metavar="BRANCH", help="what is deployed here (the repository's branch)")


def _add_set_arguments(change: argparse.ArgumentParser) -> None:
    change.add_argument("--name", help="what it is called")
    branch = change.add_mutually_exclusive_group()
    branch.add_argument("--branch", metavar="BRANCH", help="what is deployed where a deploy names nothing")
    branch.add_argument("--no-branch", action="store_true", help="the repository's branch is")
    change.add_argument(
        "--order", type=int, metavar="N", help="deployments are promoted to a higher one (0 to 1000)"
    )
    window = change.add_mutually_exclusive_group()
    window.add_argument(
        "--window", metavar="HOURS", help="take deploys then only: 'mon-thu 09:00-16:00 Europe/Oslo'"
    )
    window.add_argument("--no-window", action="store_true", help="take deploys at any time")
    for name, what in (("deploy", "deploys"), ("variable", "new variables")):
        change.add_argument(
            f"--{name}-approval", choices=SWITCH, help=f"whether {what} wait for a second person"
        )
    add_agreed_arguments(change)
    change.add_argument(
        "--wake-on-request", choices=SWITCH, help="whether the first request wakes it when it hibernates"
    )


def _run(arguments: argparse.Namespace) -> int:
    if arguments.action == "remove" and not confirmed(
        arguments,
        f"remove the environment {arguments.environment} with its keys, heartbeats, queues, variables and releases",
    ):
        return 1
    return tell(arguments, _ask(arguments), partial(_show, arguments.action))


def _ask(arguments: argparse.Namespace) -> Any:
    match arguments.action:
        case "list":
            return ask(arguments, "environments/list", {"project_id": arguments.project_id})
        case "create":
            names = ("name", "type", "slug", "project_id", "order", "branch")
            return ask(arguments, "environments/create", {name: getattr(arguments, name) for name in names})
    wanted = {"id": arguments.environment}
    match arguments.action:
        case "set":
            return ask(
                arguments, "environments/set", {**wanted, **_changes(arguments), **read_agreed(arguments)}
            )
        case "scale":
            return ask(arguments, "environments/scale", {**wanted, "replicas": arguments.replicas})
        case "hibernate" | "wake":
            state = "hibernated" if arguments.action == "hibernate" else "running"
            return ask(arguments, "environments/state", {**wanted, "state": state})
        case "remove":
            return ask(arguments, "environments/remove", {**wanted, **read_agreed(arguments)})
    return ask(arguments, f"environments/{arguments.action}", wanted)


def _changes(arguments: argparse.Namespace) -> dict[str, Any]:
    """What was given. Null: there shall be none."""
    names = ("name", "branch", "order", "window")
    changes = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    for name in ("branch", "window"):
        if getattr(arguments, f"no_{name}"):
            changes[name] = None
    for name in ("deploy_approval", "variable_approval", "wake_on_request"):
        if getattr(arguments, name) is not None:
            changes[name] = SWITCH[getattr(arguments, name)]
    return changes


def _show(action: str, told: Any) -> None:
    # Only here: a program that asks for JSON need not wait for what draws tables.
    from operator_cli.environment_tables import show_environment, show_environments, tell_removed

    match action:
        case "list":
            show_environments(told)
        case "show" | "set":
            show_environment(told)
        case "create":
            print(f"Environment {called(told)} is made: {told['id']}.")
            print(
                typed_commands(
                    f"It has no ingest key yet; `pharos keys create --environment {told['id']}` makes one."
                )
            )
        case "scale":
            print(f"Environment {called(told)} shall have {told['desired_replicas']} replicas.")
        case "hibernate":
            print(f"Environment {called(told)} shall hibernate.")
        case "wake":
            print(f"Environment {called(told)} shall run.")
        case "resume":
            print(_tell_resumed(told))
        case "remove":
            tell_removed(told)


def _tell_resumed(told: dict[str, Any]) -> str:
    if not told["resumed"]:
        return f"Environment {called(told)} was not held; nothing was changed."
    return f"Environment {called(told)} takes pushes again: the next one deploys."


def called(environment: dict[str, Any]) -> str:
    """The environment as commands take it."""
    return f"{environment['project']['slug']}/{environment['slug']}"
