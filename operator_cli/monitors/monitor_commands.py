"""The verbs that `pharos heartbeat` and `pharos queue` share."""

import argparse
import shlex
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from operator_cli.api.client import Api
from operator_cli.api.default_environment import Effect
from operator_cli.api.names import Row, resolve_environment
from operator_cli.api.problems import ApiRefused
from operator_cli.arguments import add_yes_argument, complete, confirm
from operator_cli.errors import NOT_FOUND, CommandFailed, NoSuchName
from operator_cli.messages import print_result
from operator_cli.monitors.find_monitor import Kind, find_monitor

ShowKey = Callable[[Api, Row, dict[str, Any]], None]
"""Prints a new key of a heartbeat or queue, and how to use it."""

_REMOVED_WITH = {"heartbeat": "runs", "queue": "workers"}


def add_name_argument(parser: argparse.ArgumentParser, kind: Kind, *, is_optional: bool = False) -> None:
    """Add `HEARTBEAT` or `QUEUE`."""
    more = "; by default the only one" if is_optional else ""
    name = parser.add_argument(
        "monitor",
        metavar=kind.upper(),
        nargs="?" if is_optional else None,
        help=f"the {kind}: its name (backup, production/backup or shop/production/backup) or ID{more}",
    )
    complete(name, kind)


def add_environment_option(parser: argparse.ArgumentParser, *, is_filter: bool = False) -> None:
    """Add `--environment`."""
    name = "production, shop/production or an ID"
    environment = parser.add_argument(
        "--environment",
        metavar="ENVIRONMENT",
        help=f"only the monitors of this environment: {name}"
        if is_filter
        else f"the environment: {name}; by default PHAROS_DEFAULT_ENVIRONMENT, or the only one",
    )
    complete(environment, "environment")


def add_shared_arguments(parser: argparse.ArgumentParser, kind: Kind, verb: str) -> None:
    """Add the arguments of a verb that both kinds have."""
    match verb:
        case "create":
            parser.add_argument("name", metavar="NAME", help="the name, unique in the environment")
            add_environment_option(parser)
        case "list":
            add_environment_option(parser, is_filter=True)
        case _:
            add_name_argument(parser, kind, is_optional=verb == "show")
    match verb:
        case "rename":
            parser.add_argument("name", metavar="NAME", help="the new name")
        case "revoke-key":
            parser.add_argument(
                "key_id", type=int, metavar="KEY", help="the ID of the key, as `show` lists it"
            )
        case "remove":
            add_yes_argument(parser)


def run_list(
    arguments: argparse.Namespace,
    api: Api,
    kind: Kind,
    show: Callable[[argparse.Namespace, list[dict[str, Any]]], None],
) -> int:
    """Print the monitors of a kind, the newest first. Return exit status 0."""
    environment = (
        None
        if arguments.environment is None
        else resolve_environment(api, arguments.environment, effect=Effect.READS).id
    )
    query = {"environment": environment, "state": getattr(arguments, "state", None)}
    rows = api.get_all("monitors", f"{kind}s", query=query)
    return print_result(arguments, rows, lambda rows: show(arguments, rows))


def _exists(api: Api, kind: Kind, path: str) -> bool:
    try:
        find_monitor(api, kind, path)
    except CommandFailed:
        return False
    return True


def create(arguments: argparse.Namespace, api: Api, kind: Kind, settings: dict[str, Any]) -> dict[str, Any]:
    """Create a monitor in the environment that the arguments name, and return its object with its keys."""
    environment = resolve_environment(api, arguments.environment, effect=Effect.ADDS)
    body = {"name": arguments.name, **settings}
    try:
        created: dict[str, Any] = api.post("environments", environment.id, f"{kind}s", body=body)
    except ApiRefused as error:
        path = f"{environment.path}/{arguments.name}"
        # A conflict may also be a limit of the account.
        if error.status == HTTPStatus.CONFLICT and _exists(api, kind, path):
            name = shlex.quote(path)
            error.args = (
                f"{error} `pharos {kind} show {name}` shows it, `pharos {kind} new-key {name}` makes one more key.",
            )
        raise
    return created


def run_shared_verb(arguments: argparse.Namespace, api: Api, kind: Kind, show_key: ShowKey) -> int:
    """Run a verb that both kinds have; `show_key` prints a new key. Return the exit status."""
    monitor = find_monitor(api, kind, arguments.monitor)
    path = ("monitors", f"{kind}s", monitor["id"])
    match arguments.verb:
        case "rename":
            renamed = api.patch(*path, body={"name": arguments.name})
            return print_result(
                arguments,
                renamed,
                lambda new: print(f"{kind.title()} {monitor['name']} is called {new['name']} now."),
            )
        case "new-key":
            key = api.post(*path, "keys")
            return print_result(arguments, key, lambda key: show_key(api, monitor, key), quiet="key")
        case "revoke-key":
            revoked = _revoke_key(api, kind, monitor, arguments.key_id)
            return print_result(
                arguments, revoked, lambda key: print(f"Key {key['id']} of {monitor['name']} is revoked.")
            )
    consequence = f"remove {kind} {monitor['id']}, {monitor['name']}, with its keys and {_REMOVED_WITH[kind]}"
    if not confirm(arguments, consequence):
        return 1
    return print_result(
        arguments, api.delete(*path), lambda gone: print(f"{kind.title()} {gone['name']} is removed.")
    )


def _revoke_key(api: Api, kind: Kind, monitor: Row, key_id: int) -> Any:
    """Revoke a key of either kind: the numbers of monitor keys and ping keys are distinct. Raises `CommandFailed`."""
    for keys in ("keys", "ping-keys") if kind == "heartbeat" else ("keys",):
        try:
            return api.delete("monitors", f"{kind}s", monitor["id"], keys, key_id)
        except ApiRefused as error:
            if error.exit_status != NOT_FOUND:
                raise
    raise NoSuchName(
        f"{kind.title()} {monitor['name']} has no key {key_id}; `pharos {kind} show {monitor['id']}` lists its keys."
    )
