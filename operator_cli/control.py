"""`pharos control`: the control plane as a process of its own."""

import argparse

from operator_cli.paused_garbage_collector import paused_garbage_collector
from operator_cli.run_service import add_listening_arguments, run_service


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "control",
        help="run the control plane on Postgres",
        description="Run the control plane: PHAROS_DATABASE_URL, PHAROS_CLICKHOUSE_URL, PHAROS_REDIS_URL, "
        "PHAROS_RECEIPT_KEY and PHAROS_VARIABLES_KEY say on what.",
    )
    add_listening_arguments(parser, 8002, "the control plane")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    with paused_garbage_collector():
        from wiring.processes.control import run_control

    return run_service("control", arguments, run_control)
