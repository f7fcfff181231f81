"""Subcommands that `pharos heartbeat` and `pharos queue` share."""

import argparse
import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

from operator_cli.arguments import add_subcommands, add_yes_argument, confirm
from operator_cli.control_client import request_action
from operator_cli.credentials import get_base_url
from operator_cli.durations import format_minute

Kind = Literal["heartbeat", "queue"]
ShowKey = Callable[[argparse.Namespace, dict[str, Any]], None]

_REMOVED_WITH: Mapping[Kind, str] = {"heartbeat": "runs", "queue": "workers"}


def add_monitor_subcommands(
    parser: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace], int],
    summaries: Mapping[str, str],
    add_arguments: Callable[[argparse.ArgumentParser, str], None],
) -> None:
    """Add the subcommands with the arguments of both kinds, and those of one kind through `add_arguments`."""

    def add_all_arguments(subcommand: argparse.ArgumentParser, name: str) -> None:
        if name not in ("create", "list"):
            subcommand.add_argument("id", type=int, help="ID as `list` shows it")
        add_arguments(subcommand, name)
        if name == "revoke-key":
            subcommand.add_argument("key_id", type=int, help="ID of the key as `show` shows it")
        if name == "remove":
            add_yes_argument(subcommand)

    add_subcommands(parser, summaries, run, add_all_arguments)


def add_environment_option(create: argparse.ArgumentParser) -> None:
    """Add `--environment`."""
    create.add_argument(
        "--environment",
        metavar="ID",
        help="env_…; may be left out where there is only one",
        dest="environment_id",
    )


def run_subcommand(
    arguments: argparse.Namespace, kind: Kind, params: dict[str, Any], show_key: ShowKey
) -> int:
    """Request the action of the subcommand and print its result. Return the exit status.

    `params` are those of `create` and `set`; `show_key` prints a new key.
    """
    if arguments.subcommand == "list":
        return run_list(arguments, kind)
    if arguments.subcommand == "remove" and not confirm(
        arguments, f"remove {kind} {arguments.id} with its keys and {_REMOVED_WITH[kind]}"
    ):
        return 1
    result = _request(arguments, kind, params)
    if arguments.json:
        print(json.dumps(result))
        return 0
    match arguments.subcommand:
        case "show":
            _show_one(arguments, kind, result)
        case "create" | "new-key" | "new-ping-key":
            show_key(arguments, result)
        case "revoke-key":
            print(f"Key {result['id']} is revoked.")
        case "remove":
            print(f"{kind.title()} {result['id']}, {result['name']}, is removed.")
        case _:
            due = "" if result["due_at"] is None else f", due {format_minute(result['due_at'])}"
            print(f"{kind.title()} {result['id']} is {result['state']}{due}.")
    if "warning" in result:
        print(result["warning"])
    return 0


def run_list(arguments: argparse.Namespace, kind: Kind) -> int:
    """Print all monitors of the kind. Return exit status 0."""
    result = request_action(arguments, f"{kind}s/list")
    if arguments.json:
        print(json.dumps(result))
    else:
        _show_all(kind, result)
    return 0


def _request(arguments: argparse.Namespace, kind: Kind, params: dict[str, Any]) -> Any:
    match arguments.subcommand:
        case "create":
            return request_action(arguments, f"{kind}s/create", params)
        case "set":
            return request_action(arguments, f"{kind}s/set", {**params, "id": arguments.id})
        case "show" | "remove":
            return request_action(arguments, f"{kind}s/{arguments.subcommand}", {"id": arguments.id})
        case "new-ping-key":
            return request_action(arguments, "ping-keys/create", {"id": arguments.id})
        case "new-key":
            return request_action(arguments, "monitor-keys/create", {"kind": kind, "id": arguments.id})
        case "revoke-key":
            key = {"kind": kind, "id": arguments.id, "key_id": arguments.key_id}
            return request_action(arguments, "monitor-keys/revoke", key)
    return request_action(
        arguments, f"{kind}s/pause", {"id": arguments.id, "paused": arguments.subcommand == "pause"}
    )


def _show_all(kind: Kind, monitors: list[dict[str, Any]]) -> None:
    # Imported here: rich is slow to import, and --json needs none of it.
    from operator_cli.monitors.tables import show_heartbeats, show_queues

    show = show_heartbeats if kind == "heartbeat" else show_queues
    show(monitors)


def _show_one(arguments: argparse.Namespace, kind: Kind, monitor: dict[str, Any]) -> None:
    from operator_cli.monitors.tables import show_heartbeat, show_queue

    if kind == "heartbeat":
        show_heartbeat(monitor, ping_url_prefix(arguments))
    else:
        show_queue(monitor)


def ping_url_prefix(arguments: argparse.Namespace) -> str:
    """Return the part of ping URLs before the ping key."""
    return get_base_url(arguments.data).removesuffix("/api") + "/ping/"
