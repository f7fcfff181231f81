"""`pharos edge`: the ingest edge as a process of its own."""

import argparse
from functools import partial

from operator_cli.paused_garbage_collector import paused_garbage_collector
from operator_cli.process_logs import start_logs
from operator_cli.process_settings import load_settings
from operator_cli.run_service import add_listening_arguments, run_service


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "edge",
        help="run the ingest edge on Kafka and Redis",
        description="Run the ingest edge: PHAROS_KAFKA_BOOTSTRAP, PHAROS_REDIS_URL and PHAROS_RECEIPT_KEY say on "
        "what. With PHAROS_EDGE_WORKERS above 1 that many processes share the port.",
    )
    add_listening_arguments(parser, 8000, "the edge")
    parser.add_argument(
        "--shared-port", action="store_true", help="let other edges of this machine listen on the same port"
    )
    # Its number among those that share the port.
    parser.add_argument("--worker", type=int, default=0, help=argparse.SUPPRESS)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    settings = load_settings()
    if settings.edge_workers > 1:
        # Only here: one edge alone need not import what runs several.
        from ingest_edge.listening import PortInUse, bind
        from operator_cli.failure import CommandFailed
        from wiring.processes.edge_workers import run_edge_workers

        start_logs(settings.log_level)
        try:
            # Bound, never listening: it holds the port, and finds a free one for `--port 0`.
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
