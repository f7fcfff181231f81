"""`pharos heartbeat create|list|show|pause|resume|new-key|revoke-key`."""

import argparse
import json
from typing import Any

from operator_cli.ask import WHICH, ask
from operator_cli.credentials import add_data_argument, base_url_of
from operator_cli.durations import parse_duration


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "heartbeat",
        help="make, list, show and pause heartbeats of scheduled jobs",
        description=f"Heartbeats: jobs that say when they start and how they end. {WHICH}",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="make one; its key is shown once")
    _add_create_arguments(create)
    actions.add_parser("list", help="show each with its state")
    show = actions.add_parser("show", help="show one with its newest runs")
    pause = actions.add_parser("pause", help="record its signals, but do not judge them")
    resume = actions.add_parser("resume", help="judge it again, from its next signal on")
    new_key = actions.add_parser("new-key", help="make one more key; those before go on working")
    revoke = actions.add_parser("revoke-key", help="let no edge take a key any more, within 5 s")
    for action in (show, pause, resume, new_key, revoke):
        action.add_argument("id", type=int, help="ID as `list` shows it")
    revoke.add_argument("key_id", type=int, help="ID of the key as `show` shows it")
    for name, action in actions.choices.items():
        add_data_argument(action)
        action.add_argument("--json", action="store_true", help="print JSON")
        action.set_defaults(run=_run, action=name)


def _add_create_arguments(create: argparse.ArgumentParser) -> None:
    create.add_argument("name", help="what the job is called")
    due = create.add_mutually_exclusive_group(required=True)
    due.add_argument(
        "--period", type=parse_duration, metavar="TIME", help="due so long after the last run: 1h"
    )
    due.add_argument("--cron", metavar="EXPRESSION", help="due by the clock on the wall: '0 3 * * *'")
    create.add_argument("--timezone", metavar="NAME", help="whose clock: Europe/Oslo (UTC)")
    create.add_argument(
        "--grace", type=parse_duration, metavar="TIME", help="from late to down (5m)", dest="grace_seconds"
    )
    create.add_argument(
        "--max-runtime",
        type=parse_duration,
        metavar="TIME",
        help="longest time that a run may take (1h)",
        dest="max_runtime_seconds",
    )
    create.add_argument(
        "--failures",
        type=int,
        metavar="N",
        help="down after so many in a row (1)",
        dest="failures_before_down",
    )
    create.add_argument("--environment", metavar="ID", help="env_…; may be left out where there is only one")


def _run(arguments: argparse.Namespace) -> int:
    told = _ask(arguments)
    if arguments.json:
        print(json.dumps(told))
        return 0
    from operator_cli.monitor_tables import show_heartbeat, show_heartbeats

    match arguments.action:
        case "list":
            show_heartbeats(told)
        case "show":
            show_heartbeat(told)
        case "create" | "new-key":
            _tell_key(arguments, told)
        case "revoke-key":
            print(f"Key {told['id']} is revoked.")
        case _:
            print(f"Heartbeat {told['id']} is {told['state']}.")
    if isinstance(told, dict) and "warning" in told:
        print(told["warning"])
    return 0


def _ask(arguments: argparse.Namespace) -> Any:
    match arguments.action:
        case "list":
            return ask(arguments, "heartbeats/list")
        case "create":
            names = (
                "name",
                "cron",
                "timezone",
                "grace_seconds",
                "max_runtime_seconds",
                "failures_before_down",
            )
            wanted = {name: getattr(arguments, name) for name in names}
            wanted |= {"period_seconds": arguments.period, "environment_id": arguments.environment}
            return ask(arguments, "heartbeats/create", wanted)
        case "show":
            return ask(arguments, "heartbeats/show", {"id": arguments.id})
        case "new-key":
            return ask(arguments, "monitor-keys/create", {"kind": "heartbeat", "id": arguments.id})
        case "revoke-key":
            wanted = {"kind": "heartbeat", "id": arguments.id, "key_id": arguments.key_id}
            return ask(arguments, "monitor-keys/revoke", wanted)
    return ask(arguments, "heartbeats/pause", {"id": arguments.id, "paused": arguments.action == "pause"})


def _tell_key(arguments: argparse.Namespace, told: dict[str, Any]) -> None:
    print(f"Heartbeat {told['id']}. Its key, shown this once:\n{told['key']}\n")
    url = base_url_of(arguments.data)
    print("Around the job:")
    print(
        f"  PHAROS_URL={url} PHAROS_HEARTBEAT_KEY={told['key']} pharos run --heartbeat {told['id']} -- your-command"
    )
    print("Or from anywhere:")
    print(
        f"  curl -sS {url}/v1/heartbeats/{told['id']} -H 'Authorization: Bearer {told['key']}' "
        "-H 'Content-Type: application/json' "
        f'-d "{{\\"run_id\\": \\"$(cat /proc/sys/kernel/random/uuid)\\", \\"signal\\": \\"success\\"}}"'
    )
