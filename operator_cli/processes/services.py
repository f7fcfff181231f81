"""Commands that run one service of the platform as a process: `pharos edge`, `consumers`, `control` and `deployer`.

The functions import what they run, so that each process loads only its own service.
"""

import argparse
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from socket import socket
from typing import Any

from operator_cli.errors import CommandFailed
from operator_cli.paused_garbage_collector import paused_garbage_collector
from operator_cli.processes.process_logs import start_logs
from operator_cli.processes.run_service import add_listening_arguments, run_service
from operator_cli.settings import load_settings
from pipeline_contracts.settings import Settings


def register_edge(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "edge",
        help="run the ingest edge on Kafka and Redis",
        description="Run the ingest edge: PHAROS_KAFKA_BOOTSTRAP, PHAROS_REDIS_URL and PHAROS_RECEIPT_KEY are "
        "required. With PHAROS_EDGE_WORKERS above 1 that many processes share the port.",
    )
    add_listening_arguments(parser, 8000, "the edge")
    parser.add_argument(
        "--shared-port", action="store_true", help="let other edges of this machine listen on the same port"
    )
    # The number of this process among those that share the port.
    parser.add_argument("--worker", type=int, default=0, help=argparse.SUPPRESS)
    parser.set_defaults(run=_run_edge)


def _run_edge(arguments: argparse.Namespace) -> int:
    settings = load_settings()
    if settings.edge_workers > 1:
        from ingest_edge.listening import PortInUse, bind
        from wiring.processes.edge_workers import run_edge_workers

        start_logs(settings.log_level, settings.log_format)
        try:
            # Bound but never listening: this reserves the port, and chooses a free one for `--port 0`.
            with bind(arguments.host, arguments.port, shared=True) as holder:
                port = holder.getsockname()[1]
                print(f"pharos edge: {settings.edge_workers} workers on {arguments.host}:{port}", flush=True)
                return run_edge_workers(settings.edge_workers, arguments.host, port)
        except PortInUse as error:
            raise CommandFailed(str(error)) from error
    from wiring.embedded.allocator import keep_freed_memory

    with paused_garbage_collector():
        from wiring.processes.edge import run_edge

    keep_freed_memory()
    run = partial(run_edge, worker=arguments.worker)
    return run_service("edge", arguments, run, shared_port=arguments.shared_port)


def register_consumers(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    from consumers.assemble import MONITOR_TRANSFORMS, TRANSFORMS

    names = sorted([*TRANSFORMS, *MONITOR_TRANSFORMS])
    parser = commands.add_parser(
        "consumers",
        help="run the consumers from Kafka into ClickHouse",
        description="Run the consumers from PHAROS_KAFKA_BOOTSTRAP into PHAROS_CLICKHOUSE_URL and, for heartbeats and "
        "queues, PHAROS_DATABASE_URL. Any number of processes share the load, up to one a partition.",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=names,
        metavar="NAME",
        help=f"just this one; may be given again ({', '.join(names)})",
    )
    add_listening_arguments(parser, 8001, "/health")
    parser.set_defaults(run=partial(_run_consumers, names))


def _run_consumers(all_names: Sequence[str], arguments: argparse.Namespace) -> int:
    from wiring.embedded.allocator import keep_freed_memory

    with paused_garbage_collector():
        from wiring.processes.consumers import run_consumers

    keep_freed_memory()
    names = sorted(set(arguments.only or all_names))
    return run_service(
        "consumers", arguments, lambda settings, server: run_consumers(settings, names, server)
    )


def register_control(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "control",
        help="run the control plane on Postgres",
        description="Run the control plane: PHAROS_DATABASE_URL, PHAROS_CLICKHOUSE_URL, PHAROS_REDIS_URL, "
        "PHAROS_RECEIPT_KEY and PHAROS_VARIABLES_KEY are required.",
    )
    add_listening_arguments(parser, 8002, "the control plane")
    parser.set_defaults(run=_run_control)


def _run_control(arguments: argparse.Namespace) -> int:
    with paused_garbage_collector():
        from wiring.processes.control import run_control

    return run_service("control", arguments, run_control)


def register_deployer(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "deployer",
        help="run deployments on this machine",
        description="Build applications, run them on this machine and route requests to them. PHAROS_DATABASE_URL, "
        "PHAROS_VARIABLES_KEY and PHAROS_DEPLOY_FOLDER are required. Run one per machine. When it ends, its processes "
        "keep running, and the next start on the same folder takes them over.",
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
    parser.add_argument("--stop-processes", action="store_true", help="stop its processes when it ends")
    parser.set_defaults(run=_run_deployer)


def _run_deployer(arguments: argparse.Namespace) -> int:
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
