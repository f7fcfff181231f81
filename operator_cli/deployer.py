"""`pharos deployer`: what carries deployments out, as a process of its own."""

import argparse
from contextlib import AbstractAsyncContextManager
from socket import socket
from typing import Any

from operator_cli.failure import CommandFailed
from operator_cli.paused_garbage_collector import paused_garbage_collector
from operator_cli.run_service import add_listening_arguments, run_service
from pipeline_contracts.settings import Settings


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "deployer",
        help="carry out deployments on this machine",
        description="Build what is deployed, run it on this machine and bring requests to it. PHAROS_DATABASE_URL, "
        "PHAROS_VARIABLES_KEY and PHAROS_DEPLOY_FOLDER say for what and where. Run one on a machine. When it ends, "
        "what it runs goes on, and is taken over by the next start on the same folder.",
    )
    add_listening_arguments(parser, 8003, "its health")
    parser.add_argument(
        "--apps-host", default="127.0.0.1", help="address on which applications answer (127.0.0.1)"
    )
    parser.add_argument(
        "--apps-port",
        type=int,
        default=8090,
        help="port on which applications answer (8090; 0: any free one)",
    )
    parser.add_argument("--stop-processes", action="store_true", help="stop what it runs when it ends")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from deployer.identity import FolderInUse
    from ingest_edge.listening import PortInUse, bind

    with paused_garbage_collector():
        from wiring.processes.deployer import run_deployer

    def start(settings: Settings, server: socket) -> AbstractAsyncContextManager[Any]:
        return run_deployer(settings, server, apps=apps, stops=arguments.stop_processes)

    try:
        with bind(arguments.apps_host, arguments.apps_port) as apps:
            return run_service("deployer", arguments, start)
    except (FolderInUse, PortInUse) as error:
        raise CommandFailed(str(error)) from error
