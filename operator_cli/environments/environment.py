"""`pharos environment list|show|create|set|scale|hibernate|wake|resume|remove`, `lock` and `unlock`."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

from operator_cli.api.client import Api, open_api
from operator_cli.api.default_environment import Effect
from operator_cli.api.names import Environment, list_projects, resolve_environment, resolve_project
from operator_cli.api.problems import ApiRefused
from operator_cli.arguments import (
    ON_OFF,
    add_client_arguments,
    add_environment_argument,
    add_optional_environment_argument,
    add_project_argument,
    add_verbs,
    add_yes_argument,
    confirm,
)
from operator_cli.errors import CommandFailed, UsageError
from operator_cli.messages import print_result, qualify_commands

_VERBS: Final = {
    "list": "list environments with their states, and whether they accept deployments",
    "show": "show an environment with its settings, lock, live release and pending deployments",
    "create": "create an environment",
    "set": "change the name, branch, order, deploy window, approvals or wake-up of an environment",
    "scale": "set the number of replicas of an environment",
    "hibernate": "stop the processes of an environment until it is woken",
    "wake": "start the processes of a hibernating environment",
    "resume": "let pushes deploy again after a rollback",
    "remove": "remove an environment with its keys, monitors, variables and releases",
}
_LOWERING: Final = (
    "If this needs a second person, one person creates a configuration review, and another applies it with "
)
_DESCRIPTIONS: Final = {
    "create": "It has neither variables nor keys. `pharos key create` creates an ingest key.",
    "set": "Turning off an approval or widening the window weakens the protection of an environment. "
    f"{_LOWERING}`pharos config apply`.",
    "resume": "After a rollback no push deploys until somebody resumes them or deploys by hand.",
    "remove": f"Deployments with their logs, and telemetry, are kept. {_LOWERING}`pharos config apply`.",
}
_TYPES: Final = ("production", "staging", "development")
_GATED: Final = "second-person-required"


def register_environment(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "environment",
        help="environments of a project, in which it runs",
        description="A project runs in its environments, such as staging and production, and its telemetry "
        "belongs to them. These commands store the desired state of an environment; the deployer applies it.",
    )
    add_verbs(parser, _VERBS, _run, _add_arguments, _DESCRIPTIONS)


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    if verb == "show":
        add_optional_environment_argument(parser)
    elif verb not in ("list", "create"):
        add_environment_argument(parser)
    match verb:
        case "list":
            add_project_argument(parser, "only of this project", dest="project")
        case "create":
            _add_create_arguments(parser)
        case "set":
            _add_set_arguments(parser)
        case "scale":
            parser.add_argument("replicas", type=int, metavar="N", help="1 to 20")
        case "remove":
            add_yes_argument(parser)


def _add_create_arguments(create: argparse.ArgumentParser) -> None:
    create.add_argument("name", metavar="NAME", help="the name")
    create.add_argument("--type", choices=_TYPES, required=True, help="what the environment is for")
    create.add_argument("--slug", help="the short name for commands (made from the name)")
    add_project_argument(create, dest="project")
    create.add_argument(
        "--order",
        type=int,
        metavar="N",
        help="deployments are promoted to a higher one (development 1, staging 2, production 3)",
    )
    create.add_argument(
        "--branch", metavar="BRANCH", help="the branch to deploy here (the repository's branch)"
    )


def _add_set_arguments(change: argparse.ArgumentParser) -> None:
    change.add_argument("--name", help="the name")
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
    change.add_argument(
        "--wake-on-request", choices=ON_OFF, help="whether the first request wakes it when it hibernates"
    )


def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    if arguments.verb == "list":
        return print_result(
            arguments, _list(api, arguments.project), lambda rows: _show_list(arguments, rows)
        )
    if arguments.verb == "create":
        return print_result(arguments, _create(api, arguments), _show_created)
    changes = _read_changes(arguments) if arguments.verb == "set" else {}
    effect = Effect.READS if arguments.verb == "show" else Effect.CHANGES
    environment = resolve_environment(api, arguments.environment, option="", effect=effect)
    match arguments.verb:
        case "show":
            return print_result(arguments, api.get("environments", environment.id), _show_one)
        case "set":
            with _explaining_gate(environment):
                changed = api.patch("environments", environment.id, body=changes)
            return print_result(arguments, changed, _show_one)
        case "scale":
            body = {"replicas": arguments.replicas}
            scaled = api.patch("environments", environment.id, "scale", body=body)
            return print_result(
                arguments,
                scaled,
                lambda found: print(f"{environment.path} will have {found['desired_replicas']} replicas."),
            )
        case "hibernate" | "wake":
            return _change_state(api, arguments, environment)
        case "resume":
            resumed = api.post("environments", environment.id, "resume")
            return print_result(arguments, resumed, lambda found: _show_resumed(environment, found))
    return _remove(api, arguments, environment)


def _list(api: Api, project: str | None) -> list[dict[str, Any]]:
    return [
        environment
        for each in list_projects(api, project)
        for environment in api.get_all("projects", each.id, "environments")
    ]


def _create(api: Api, arguments: argparse.Namespace) -> dict[str, Any]:
    project = resolve_project(api, arguments.project, effect=Effect.ADDS)
    names = ("name", "type", "slug", "order", "branch")
    body = {name: getattr(arguments, name) for name in names}
    created: dict[str, Any] = api.post("projects", project.id, "environments", body=body)
    return created


def _read_changes(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings in the arguments. None removes the branch or the window."""
    names = ("name", "branch", "order", "window")
    changes = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    for name in ("branch", "window"):
        if getattr(arguments, f"no_{name}"):
            changes[name] = None
    approval = {
        f"{name}s": ON_OFF[value]
        for name in ("deploy", "variable")
        if (value := getattr(arguments, f"{name}_approval")) is not None
    }
    if approval:
        changes["approval"] = approval
    if arguments.wake_on_request is not None:
        changes["wake_on_request"] = ON_OFF[arguments.wake_on_request]
    if not changes:
        raise UsageError("Name a setting to change: `pharos environment set --help` lists them.")
    return changes


@contextmanager
def _explaining_gate(environment: Environment) -> Iterator[None]:
    """Add to a refusal that requires a second person how two people make the change."""
    try:
        yield
    except ApiRefused as error:
        # The configuration does not have previews.
        if error.slug != _GATED or environment.document["type"] == "preview":
            raise
        raise CommandFailed(
            f"{error} `pharos config export` prints the configuration; `pharos config apply FILE` makes the review of "
            "a changed one."
        ) from None


def _change_state(api: Api, arguments: argparse.Namespace, environment: Environment) -> int:
    is_waking = arguments.verb == "wake"
    body = {"state": "running" if is_waking else "hibernated"}
    changed = api.patch("environments", environment.id, "runtime", body=body)
    outcome = "run" if is_waking else "hibernate"
    return print_result(arguments, changed, lambda _: print(f"{environment.path} will {outcome}."))


def _remove(api: Api, arguments: argparse.Namespace, environment: Environment) -> int:
    consequence = (
        f"remove the environment {environment.path} with its keys, heartbeats, queues, variables and releases"
    )
    if not confirm(arguments, consequence):
        return 1
    with _explaining_gate(environment):
        removed = api.delete("environments", environment.id)
    return print_result(arguments, removed, lambda found: _show_removed(environment, found))


def _show_list(arguments: argparse.Namespace, environments: list[dict[str, Any]]) -> None:
    # Imported here and below: rich is slow to import, and --json needs none of it.
    from operator_cli.environments.tables import show_environments

    show_environments(arguments, environments)


def _show_one(environment: dict[str, Any]) -> None:
    from operator_cli.environments.tables import show_environment

    show_environment(environment)


def _show_created(environment: dict[str, Any]) -> None:
    path = _path(environment)
    print(
        qualify_commands(
            f"Environment {path} is created: {environment['id']}.\n"
            f"It has no ingest key yet; `pharos key create --environment {path}` creates one.\n"
            "Applications that Pharos deploys get a key of their own."
        )
    )


def _show_resumed(environment: Environment, found: dict[str, Any]) -> None:
    if found["resumed"]:
        print(f"Pushes deploy to {environment.path} again, beginning with the next one.")
    else:
        print(f"No rollback keeps pushes from {environment.path}; nothing was changed.")


def _show_removed(environment: Environment, found: dict[str, Any]) -> None:
    counts = found["removed"]
    removed = ", ".join(
        f"{count} {name if count != 1 else name[:-1]}" for name, count in counts.items() if name != "canceled"
    )
    print(f"The environment {environment.path} is removed, with {removed}.")
    if counts["canceled"]:
        print(f"Deployments that waited for approval were canceled: {counts['canceled']}.")
    print("Its deployments are still listed; telemetry stays until its retention ends.")


def _path(environment: dict[str, Any]) -> str:
    """Return `PROJECT/SLUG`, as commands accept it."""
    return f"{environment['project']['slug']}/{environment['slug']}"


def register_lock(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "lock",
        help="block deployments to an environment",
        description="Block deployments, rollbacks and promotions to an environment until `pharos "
        "unlock`. Deployments that are already queued wait as well. If the environment is locked "
        "already, the command fails and says who "
        "locked it and why.",
    )
    add_environment_argument(parser)
    parser.add_argument("--reason", required=True, metavar="TEXT", help="the reason that others see")
    add_client_arguments(parser)
    parser.set_defaults(run=_lock)


def _lock(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    environment = resolve_environment(api, arguments.environment)
    try:
        locked = api.put("environments", environment.id, "lock", body={"reason": arguments.reason})
    except ApiRefused as error:
        if error.slug != "conflict":
            raise
        raise CommandFailed(f"{error}; `pharos unlock {environment.path}` removes the lock.") from None
    return print_result(arguments, locked, lambda found: _show_locked(environment, found))


def _show_locked(environment: Environment, found: dict[str, Any]) -> None:
    from operator_cli.terminal_text import sanitize

    print(f"{environment.path} is locked: {sanitize(found['lock']['reason'])}")


def register_unlock(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "unlock",
        help="allow deployments to an environment again",
        description="Remove the lock of an environment, no matter who set it, and show who set it and why. Without a "
        "lock nothing changes.",
    )
    add_environment_argument(parser)
    add_client_arguments(parser)
    parser.set_defaults(run=_unlock)


def _unlock(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    environment = resolve_environment(api, arguments.environment)
    before = api.get("environments", environment.id)
    after = before if before["lock"] is None else _remove_lock(api, environment)
    return print_result(arguments, after, lambda _: _show_unlocked(environment, before["lock"]))


def _remove_lock(api: Api, environment: Environment) -> Any:
    try:
        return api.delete("environments", environment.id, "lock")
    except ApiRefused as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        # Another request was faster. A removed environment is not found either.
        return api.get("environments", environment.id)


def _show_unlocked(environment: Environment, lock: dict[str, Any] | None) -> None:
    from operator_cli.environments.tables import describe_lock

    if lock is None:
        print(f"{environment.path} was not locked.")
    else:
        print(f"{environment.path} is unlocked. It was {describe_lock(lock)}")
