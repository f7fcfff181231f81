"""`pharos queue create|list|show|rename|new-key|revoke-key|remove`, and `pharos queues`."""

import argparse
from typing import Any

from operator_cli.api.client import Api, open_api
from operator_cli.api.names import Row
from operator_cli.arguments import add_client_arguments, add_verbs
from operator_cli.messages import print_result
from operator_cli.monitors.find_monitor import find_monitor
from operator_cli.monitors.monitor_commands import (
    add_environment_option,
    add_shared_arguments,
    create,
    run_list,
    run_shared_verb,
)

_VERBS = {
    "create": "create a queue; its key is shown once",
    "list": "list queues with their counts and workers",
    "show": "show a queue with its keys and each of its workers",
    "rename": "rename a queue",
    "new-key": "create one more key; existing ones keep working",
    "revoke-key": "revoke a key at every edge, within 5 s",
    "remove": "remove a queue with its keys and workers; the history of its counts stays until its retention ends",
}


def register_queue(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "queue", help="queues of jobs", description="Queues whose length and workers are reported."
    )
    add_verbs(parser, _VERBS, _run, _add_arguments)


def register_queues(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "queues", help="show all queues at a glance", description="Queues with their counts and workers."
    )
    add_environment_option(parser, is_filter=True)
    add_client_arguments(parser)
    parser.set_defaults(run=_run_list)


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    add_shared_arguments(parser, "queue", verb)


def _run(arguments: argparse.Namespace) -> int:
    api = open_api(arguments)
    match arguments.verb:
        case "list":
            return _run_list(arguments)
        case "create":
            created = create(arguments, api, "queue", {})
            return print_result(
                arguments, created, lambda created: _show_key(api, created, created["key"]), quiet="key.key"
            )
        case "show":
            return _show(arguments, api, find_monitor(api, "queue", arguments.monitor))
    return run_shared_verb(arguments, api, "queue", _show_key)


def _run_list(arguments: argparse.Namespace) -> int:
    # Imported here and below: rich is slow to import, and --json needs none of it.
    def show(arguments: argparse.Namespace, queues: list[dict[str, Any]]) -> None:
        from operator_cli.monitors.queue_tables import show_queues

        show_queues(arguments, queues)

    return run_list(arguments, open_api(arguments), "queue", show)


def _show(arguments: argparse.Namespace, api: Api, queue: Row) -> int:
    path = ("monitors", "queues", queue["id"])
    # `workers` of a queue are their numbers by status.
    whole = {
        **queue,
        "worker_list": api.get_all(*path, "workers"),
        "keys": api.get_all(*path, "keys"),
    }

    def show(whole: dict[str, Any]) -> None:
        from operator_cli.monitors.queue_tables import show_queue

        show_queue(arguments, whole)

    return print_result(arguments, whole, show)


def _show_key(api: Api, queue: Row, key: dict[str, Any]) -> None:
    from operator_cli.monitors.usage import describe_queue_key

    print(describe_queue_key(queue, key, api.target.base_url))
