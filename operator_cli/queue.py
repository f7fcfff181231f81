"""`pharos queue create|list|show|new-key|revoke-key|remove`."""

import argparse
from typing import Any

from operator_cli.ask import WHICH
from operator_cli.credentials import base_url_of
from operator_cli.monitor_actions import add_actions, add_environment_argument, run_action

_ACTIONS = {
    "create": "make one; its key is shown once",
    "list": "show each with its counts and workers",
    "show": "show one with each of its workers",
    "new-key": "make one more key; those before go on working",
    "revoke-key": "let no edge take a key any more, within 5 s",
    "remove": "remove one with its keys and workers; the history of its counts stays stored until its time is over",
}


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "queue",
        help="make, list, show and remove queues of jobs",
        description=f"Queues whose length and workers are reported. {WHICH}",
    )
    add_actions(parser, _run, _ACTIONS, _add_arguments)


def _add_arguments(action: argparse.ArgumentParser, name: str) -> None:
    if name == "create":
        action.add_argument("name", help="what the queue is called")
        add_environment_argument(action)


def _run(arguments: argparse.Namespace) -> int:
    wanted = {name: getattr(arguments, name, None) for name in ("name", "environment_id")}
    return run_action(arguments, "queue", wanted, _tell_key)


def _tell_key(arguments: argparse.Namespace, told: dict[str, Any]) -> None:
    print(f"Queue {told['id']}. Its key, shown this once:\n{told['key']}\n")
    print("A snapshot:")
    print(
        f"  curl -sS {base_url_of(arguments.data)}/v1/queues/{told['id']}/snapshots "
        f"-H 'Authorization: Bearer {told['key']}' -H 'Content-Type: application/json' "
        '-d "{\\"snapshot_id\\": \\"$(cat /proc/sys/kernel/random/uuid)\\", '
        '\\"observed_at\\": \\"$(date -u +%FT%TZ)\\", \\"pending\\": 5}"'
    )
