"""What `pharos heartbeat` and `pharos queue` have in common."""

import argparse
import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

from operator_cli.ask import add_ask_arguments, ask
from operator_cli.confirm import add_yes_argument, confirmed
from operator_cli.credentials import base_url_of
from operator_cli.durations import show_moment

Kind = Literal["heartbeat", "queue"]
TellKey = Callable[[argparse.Namespace, dict[str, Any]], None]

_GOES_WITH: Mapping[Kind, str] = {"heartbeat": "runs", "queue": "workers"}


def add_actions(
    parser: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace], int],
    summaries: Mapping[str, str],
    add_arguments: Callable[[argparse.ArgumentParser, str], None],
) -> None:
    """The actions of these names, with what each takes; `add_arguments` gives them what only one kind has."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, summary in summaries.items():
        action = actions.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name not in ("create", "list"):
            action.add_argument("id", type=int, help="ID as `list` shows it")
        add_arguments(action, name)
        if name == "revoke-key":
            action.add_argument("key_id", type=int, help="ID of the key as `show` shows it")
        if name == "remove":
            add_yes_argument(action)
        add_ask_arguments(action)
        action.set_defaults(run=run, action=name)


def add_environment_argument(create: argparse.ArgumentParser) -> None:
    """`--environment`."""
    create.add_argument(
        "--environment",
        metavar="ID",
        help="env_…; may be left out where there is only one",
        dest="environment_id",
    )


def run_action(arguments: argparse.Namespace, kind: Kind, wanted: dict[str, Any], tell_key: TellKey) -> int:
    """Ask for the action and tell what came of it. `wanted`: what `create` and `set` ask for; `tell_key` tells a new
    key."""
    if arguments.action == "list":
        return run_list(arguments, kind)
    if arguments.action == "remove" and not confirmed(
        arguments, f"remove {kind} {arguments.id} with its keys and {_GOES_WITH[kind]}"
    ):
        return 1
    told = _ask(arguments, kind, wanted)
    if arguments.json:
        print(json.dumps(told))
        return 0
    match arguments.action:
        case "show":
            _show_one(arguments, kind, told)
        case "create" | "new-key" | "new-ping-key":
            tell_key(arguments, told)
        case "revoke-key":
            print(f"Key {told['id']} is revoked.")
        case "remove":
            print(f"{kind.title()} {told['id']}, {told['name']}, is removed.")
        case _:
            due = "" if told["due_at"] is None else f", due {show_moment(told['due_at'])}"
            print(f"{kind.title()} {told['id']} is {told['state']}{due}.")
    if "warning" in told:
        print(told["warning"])
    return 0


def run_list(arguments: argparse.Namespace, kind: Kind) -> int:
    """All monitors of the kind at a glance."""
    told = ask(arguments, f"{kind}s/list")
    if arguments.json:
        print(json.dumps(told))
    else:
        _show_all(kind, told)
    return 0


def _ask(arguments: argparse.Namespace, kind: Kind, wanted: dict[str, Any]) -> Any:
    match arguments.action:
        case "create":
            return ask(arguments, f"{kind}s/create", wanted)
        case "set":
            return ask(arguments, f"{kind}s/set", {**wanted, "id": arguments.id})
        case "show" | "remove":
            return ask(arguments, f"{kind}s/{arguments.action}", {"id": arguments.id})
        case "new-ping-key":
            return ask(arguments, "ping-keys/create", {"id": arguments.id})
        case "new-key":
            return ask(arguments, "monitor-keys/create", {"kind": kind, "id": arguments.id})
        case "revoke-key":
            key = {"kind": kind, "id": arguments.id, "key_id": arguments.key_id}
            return ask(arguments, "monitor-keys/revoke", key)
    return ask(arguments, f"{kind}s/pause", {"id": arguments.id, "paused": arguments.action == "pause"})


def _show_all(kind: Kind, monitors: list[dict[str, Any]]) -> None:
    # Only here: a program that asks for JSON need not wait for what draws tables.
    from operator_cli.monitor_tables import show_heartbeats, show_queues

    show = show_heartbeats if kind == "heartbeat" else show_queues
    show(monitors)


def _show_one(arguments: argparse.Namespace, kind: Kind, monitor: dict[str, Any]) -> None:
    from operator_cli.monitor_tables import show_heartbeat, show_queue

    if kind == "heartbeat":
        show_heartbeat(monitor, ping_root(arguments))
    else:
        show_queue(monitor)


def ping_root(arguments: argparse.Namespace) -> str:
    """Return the part of ping URLs before the ping key."""
    return base_url_of(arguments.data).removesuffix("/api") + "/ping/"
