"""Commands `pharos queue …` and `queues`."""

import argparse
from typing import Any

from operator_cli.control_client import WHICH_INSTALLATION, add_data_and_json_arguments
from operator_cli.credentials import get_base_url
from operator_cli.monitors.monitor_commands import (
    add_environment_option,
    add_monitor_subcommands,
    run_list,
    run_subcommand,
)

_SUBCOMMANDS = {
    "create": "create a queue; its key is shown once",
    "list": "list queues with their counts and workers",
    "show": "show one with each of its workers",
    "new-key": "create one more key; existing ones keep working",
    "revoke-key": "revoke a key at every edge, within 5 s",
    "remove": "remove one with its keys and workers; the history of its counts stays until its retention ends",
}


def register_queue(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "queue",
        help="create, list, show and remove queues of jobs",
        description=f"Queues whose length and workers are reported. {WHICH_INSTALLATION}",
    )
    add_monitor_subcommands(parser, _run, _SUBCOMMANDS, _add_arguments)


def _add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    if name == "create":
        parser.add_argument("name", help="the name of the queue")
        add_environment_option(parser)


def _run(arguments: argparse.Namespace) -> int:
    params = {name: getattr(arguments, name, None) for name in ("name", "environment_id")}
    return run_subcommand(arguments, "queue", params, _show_key)


def _show_key(arguments: argparse.Namespace, result: dict[str, Any]) -> None:
    print(f"Queue {result['id']}. Its key, shown this once:\n{result['key']}\n")
    print("A snapshot:")
    print(
        f"  curl -sS {get_base_url(arguments.data)}/v1/queues/{result['id']}/snapshots "
        f"-H 'Authorization: Bearer {result['key']}' -H 'Content-Type: application/json' "
        '-d "{\\"snapshot_id\\": \\"$(cat /proc/sys/kernel/random/uuid)\\", '
        '\\"observed_at\\": \\"$(date -u +%FT%TZ)\\", \\"pending\\": 5}"'
    )


def register_queues(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "queues", help="show all queues at a glance", description=f"Queues. {WHICH_INSTALLATION}"
    )
    add_data_and_json_arguments(parser)
    parser.set_defaults(run=lambda arguments: run_list(arguments, "queue"))
