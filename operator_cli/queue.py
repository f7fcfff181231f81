"""`pharos queue create|list|show|new-key|revoke-key`."""

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
}


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "queue",
        help="make, list and show queues of jobs",
        description=f"Queues whose length and workers are reported. {WHICH}",
    )
    add_actions(parser, _run, _ACTIONS, _add_create_arguments)


def _add_create_arguments(create: argparse.ArgumentParser) -> None:
    create.add_argument("name", help="what the queue is called")
    add_environment_argument(create)


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
