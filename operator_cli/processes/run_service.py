"""Run one service of the platform until a signal."""

import argparse
import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import uvloop

from ingest_edge.listening import PortInUse, bind
from operator_cli.errors import CommandFailed
from operator_cli.processes.process_logs import start_logs
from operator_cli.settings import load_settings
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.settings import Settings

Service = AbstractAsyncContextManager[Any]


def add_listening_arguments(parser: argparse.ArgumentParser, port: int, purpose: str) -> None:
    """Add `--host` and `--port`."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=port, help=f"port of {purpose} ({port}; 0: any free one)")


def run_service(
    name: str,
    arguments: argparse.Namespace,
    start: Callable[[Settings, socket.socket], Service],
    *,
    shared_port: bool = False,
) -> int:
    """Bind the port, run the service on it until SIGTERM or Ctrl-C, and drain it. Return exit status 0."""
    settings = load_settings()
    start_logs(settings.log_level, settings.log_format)
    try:
        with (
            bind(arguments.host, arguments.port, shared=shared_port) as server,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            runner.run(_serve(name, start(settings, server), server))
    except (PortInUse, StorageUnavailable) as error:
        raise CommandFailed(str(error)) from error
    return 0


async def _serve(name: str, service: Service, server: socket.socket) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    started = asyncio.Event()
    running = asyncio.create_task(_run_until_stopped(name, service, server, started, stop))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not started.is_set():
        # The service failed, or still waits for an engine: there is nothing to drain.
        running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    print(f"pharos {name}: stopped.", flush=True)


async def _run_until_stopped(
    name: str, service: Service, server: socket.socket, started: asyncio.Event, stop: asyncio.Event
) -> None:
    async with service:
        started.set()
        host, port = server.getsockname()[:2]
        print(f"pharos {name}: listening on {host}:{port}", flush=True)
        await stop.wait()
        print(f"pharos {name}: draining", flush=True)
