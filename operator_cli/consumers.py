"""`pharos consumers`: from Kafka into ClickHouse, as a process of its own."""

import argparse

from consumers.assemble import MONITOR_TRANSFORMS, TRANSFORMS
from operator_cli.paused_garbage_collector import paused_garbage_collector
from operator_cli.run_service import add_listening_arguments, run_service

_NAMES = sorted([*TRANSFORMS, *MONITOR_TRANSFORMS])


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "consumers",
        help="run the consumers from Kafka into ClickHouse",
        description="Run the consumers: PHAROS_KAFKA_BOOTSTRAP says from where, PHAROS_CLICKHOUSE_URL and "
        "PHAROS_DATABASE_URL (for heartbeats and queues) where to. Any number of such processes share the work, "
        "up to one a partition.",
    )
    parser.add_argument("--only", action="append", choices=_NAMES, help="just this one; may be given again")
    add_listening_arguments(parser, 8001, "/health")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from wiring.embedded.allocator import keep_freed_memory

    with paused_garbage_collector():
        from wiring.processes.consumers import run_consumers

    keep_freed_memory()
    names = sorted(set(arguments.only or _NAMES))
    return run_service(
        "consumers", arguments, lambda settings, server: run_consumers(settings, names, server)
    )
