"""`pharos up`: the whole platform in one process."""

import argparse
import asyncio
import contextlib
import gc
import os
import shlex
import signal
import sys
from pathlib import Path

import uvloop

from control_domain.refusals import Refused
from deployer.identity import FolderInUse
from ingest_edge.listening import PortInUse
from operator_cli.credentials import DEFAULT_DATA, add_data_argument
from operator_cli.failure import CommandFailed
from operator_cli.process_logs import start_logs
from operator_cli.process_settings import load_settings
from operator_cli.typed_commands import typed_command
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.settings import Settings
from wiring.embedded.allocator import keep_freed_memory
from wiring.embedded.data_folder import DataFolderInUse, DataFolderUnusable
from wiring.embedded.platform import Platform, run_platform


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "up",
        help="run the whole platform in this process",
        description="Run the whole platform in this process, with its data in one folder. The first start makes "
        "an account with a project, a production environment and their keys.",
    )
    add_data_argument(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (8000; 0: any free one)")
    parser.add_argument(
        "--apps-port",
        type=int,
        metavar="PORT",
        help="port on which deployed applications answer (--port + 90: 8090)",
    )
    parser.add_argument(
        "--demo",
        action="store_true",
        help="add a shop with its tracker, 90 days of visits, and live traffic",
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    try:
        settings = load_settings()
        keep_freed_memory()
        start_logs(settings.log_level)
        # Whatever lies in the data folder is its owner's alone.
        os.umask(0o077)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(arguments, settings))
    except (DataFolderInUse, DataFolderUnusable, FolderInUse, PortInUse, StorageUnavailable) as error:
        raise CommandFailed(str(error)) from error
    except KeyboardInterrupt:
        # Before the signal handlers of `_serve` were there.
        return _end_early(signal.SIGINT)


async def _serve(arguments: argparse.Namespace, settings: Settings) -> int:
    """Run the platform until a signal; gives the exit status. A signal before it is ready cancels the start."""
    signals: list[signal.Signals] = []
    stop, ready = asyncio.Event(), asyncio.Event()

    def end(number: signal.Signals) -> None:
        signals.append(number)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end, number)
    running = asyncio.create_task(_hold(arguments, settings, ready, stop))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not ready.is_set():
        # It failed, or is still starting: what was opened so far is closed in order.
        running.cancel()
    try:
        await running
    except asyncio.CancelledError:
        return _end_early(signals[0])
    print("Stopped.", flush=True)
    return 0


def _end_early(number: signal.Signals) -> int:
    print("pharos: Stopped before it was ready.", file=sys.stderr)
    # A service manager that stops a start takes 0 for an orderly end; a shell takes 130 for Ctrl-C.
    return 128 + number if number == signal.SIGINT else 0


async def _hold(
    arguments: argparse.Namespace, settings: Settings, ready: asyncio.Event, stop: asyncio.Event
) -> None:
    data: Path = arguments.data
    async with run_platform(
        data, arguments.host, arguments.port, settings, apps_port=arguments.apps_port
    ) as platform:
        # What lives until the end need not be looked at by each collection.
        gc.collect()
        gc.freeze()
        async with contextlib.AsyncExitStack() as stack:
            print(greeting(platform, data, shows_key=sys.stdout.isatty()), flush=True)
            if arguments.demo:
                # Imported only with --demo, which most starts go without.
                from demo.run_demo import running_demo

                try:
                    shop = await stack.enter_async_context(running_demo(platform, data))
                except Refused as error:
                    raise CommandFailed(
                        f"The demo needs the first site: {error} Leave --demo out."
                    ) from error
                print(_demo_greeting(platform, data, shop), flush=True)
            ready.set()
            await stop.wait()
            print("Draining: what was accepted is being stored.", flush=True)


def _option(data: Path) -> list[str]:
    return [] if data == DEFAULT_DATA else ["--data", str(data)]


def _demo_greeting(platform: Platform, data: Path, shop: str) -> str:
    report = typed_command(["report", *_option(data), str(platform.credentials["site"]["id"])])
    return f"""The demo: a shop with the tracker at {shop}
Its visits, 90 days of them:   {report}
"""


def greeting(platform: Platform, data: Path, *, shows_key: bool) -> str:
    """What is printed when the platform is ready. Without `shows_key` the shell reads the key from its file: output
    that is no terminal ends up in logs."""
    option = _option(data)
    credentials = data / "credentials.json"
    key = platform.credentials["ingest_key"]
    if not shows_key:
        # The outer quotes are double ones, in which a shell needs no quotes around what it puts in.
        key = f"""$(sed -n 's/.*"ingest_key": "\\(.*\\)".*/\\1/p' {shlex.quote(str(credentials))})"""
    sql = "SELECT type, count() FROM pharos.telemetry_events GROUP BY type"
    return f"""
Pharos is up at {platform.base_url.removesuffix("/api")}
API             {platform.base_url}
Credentials     {credentials}

Send an event:
  curl -sS {platform.base_url}/v1/ingest \\
    -H "Authorization: Bearer {key}" \\
    -H 'Content-Type: application/json' \\
    -d '{{"batch_id": "hello-1", "events": [{{"type": "log", "severity": "info", "title": "Hello"}}]}}'

Look at what came in:   {typed_command(["tail", *option])}
Ship a log file:        {typed_command(["send", *option, "access.log"])}
Deploy:                 {typed_command(["deploy", *option])}
Ask in SQL:             {typed_command(["query", *option, sql])}
Stop with Ctrl-C; what was accepted is stored first.
"""
