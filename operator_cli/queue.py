"""`pharos queue create|list|show|new-key|revoke-key`."""

import argparse
import json
from typing import Any

from operator_cli.ask import WHICH, ask
from operator_cli.credentials import add_data_argument, base_url_of


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "queue",
        help="make, list and show queues of jobs",
        description=f"Queues whose length and workers are reported. {WHICH}",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="make one; its key is shown once")
    create.add_argument("name", help="what the queue is called")
    create.add_argument("--environment", metavar="ID", help="env_…; may be left out where there is only one")
    actions.add_parser("list", help="show each with its counts and workers")
    show = actions.add_parser("show", help="show one with each of its workers")
    new_key = actions.add_parser("new-key", help="make one more key; those before go on working")
    revoke = actions.add_parser("revoke-key", help="let no edge take a key any more, within 5 s")
    for action in (show, new_key, revoke):
        action.add_argument("id", type=int, help="ID as `list` shows it")
    revoke.add_argument("key_id", type=int, help="ID of the key as `show` shows it")
    for name, action in actions.choices.items():
        add_data_argument(action)
        action.add_argument("--json", action="store_true", help="print JSON")
        action.set_defaults(run=_run, action=name)


def _run(arguments: argparse.Namespace) -> int:
    told = _ask(arguments)
    if arguments.json:
        print(json.dumps(told))
        return 0
    from operator_cli.monitor_tables import show_queue, show_queues

    match arguments.action:
        case "list":
            show_queues(told)
        case "show":
            show_queue(told)
        case "revoke-key":
            print(f"Key {told['id']} is revoked.")
        case _:
            _tell_key(arguments, told)
    if isinstance(told, dict) and "warning" in told:
        print(told["warning"])
    return 0


def _ask(arguments: argparse.Namespace) -> Any:
    match arguments.action:
        case "list":
            return ask(arguments, "queues/list")
        case "create":
            wanted = {"name": arguments.name, "environment_id": arguments.environment}
            return ask(arguments, "queues/create", wanted)
        case "show":
            return ask(arguments, "queues/show", {"id": arguments.id})
        case "new-key":
            return ask(arguments, "monitor-keys/create", {"kind": "queue", "id": arguments.id})
    wanted = {"kind": "queue", "id": arguments.id, "key_id": arguments.key_id}
    return ask(arguments, "monitor-keys/revoke", wanted)


def _tell_key(arguments: argparse.Namespace, told: dict[str, Any]) -> None:
    print(f"Queue {told['id']}. Its key, shown this once:\n{told['key']}\n")
    print("A snapshot:")
    print(
        f"  curl -sS {base_url_of(arguments.data)}/v1/queues/{told['id']}/snapshots "
        f"-H 'Authorization: Bearer {told['key']}' -H 'Content-Type: application/json' "
        '-d "{\\"snapshot_id\\": \\"$(cat /proc/sys/kernel/random/uuid)\\", '
        '\\"observed_at\\": \\"$(date -u +%FT%TZ)\\", \\"pending\\": 5}"'
    )
