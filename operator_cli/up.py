"""`pharos up`: the whole platform in one process."""

import argparse
import asyncio
import contextlib
import gc
import os
import signal
from pathlib import Path

import uvloop

from control_api.refusals import Refused
from deployer.identity import FolderInUse
from embedded_app.allocator import keep_freed_memory
from embedded_app.platform import DataFolderInUse, Platform, run_platform
from ingest_edge.listening import PortInUse
from operator_cli.credentials import add_data_argument
from operator_cli.failure import CommandFailed
from operator_cli.process_logs import start_logs
from operator_cli.process_settings import load_settings
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.settings import Settings


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
        help="port on which deployed applications answer (the 90th behind --port: 8090)",
    )
    parser.add_argument(
        "--demo",
        action="store_true",
        help="add a shop with its tracker, 90 days of visits, and live traffic",
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    settings = load_settings()
    keep_freed_memory()
    start_logs(settings.log_level)
    # Whatever lies in the data folder is its owner's alone.
    os.umask(0o077)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(arguments, settings))
    except (DataFolderInUse, FolderInUse, PortInUse, StorageUnavailable) as error:
        raise CommandFailed(str(error)) from error
    return 0


async def _serve(arguments: argparse.Namespace, settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    data: Path = arguments.data
    async with run_platform(
        data, arguments.host, arguments.port, settings, apps_port=arguments.apps_port
    ) as platform:
        # What lives until the end need not be looked at by each collection.
        gc.collect()
        gc.freeze()
        async with contextlib.AsyncExitStack() as stack:
            print(_greeting(platform, data), flush=True)
            if arguments.demo:
                # Imported only with --demo, which most starts go without.
                from embedded_app.demo import running_demo

                try:
                    shop = await stack.enter_async_context(running_demo(platform, data))
                except Refused as error:
                    raise CommandFailed(
                        f"The demo needs the first site: {error} Leave --demo out."
                    ) from error
                print(_demo_greeting(platform, data, shop), flush=True)
            await stop.wait()
            print("Draining: what was accepted is being stored.", flush=True)
    print("Stopped.", flush=True)


def _option(data: Path) -> str:
    return "" if data == Path(".pharos") else f" --data {data}"


def _demo_greeting(platform: Platform, data: Path, shop: str) -> str:
    return f"""The demo: a shop with the tracker at {shop}
Its visits, 90 days of them:   pharos report{_option(data)} {platform.credentials["site"]["id"]}
"""


def _greeting(platform: Platform, data: Path) -> str:
    option = _option(data)
    return f"""
Pharos is up at {platform.base_url}
Credentials     {data / "credentials.json"}

Send an event:
  curl -sS {platform.base_url}/v1/ingest \\
    -H "Authorization: Bearer {platform.credentials["ingest_key"]}" \\
    -H 'Content-Type: application/json' \\
    -d '{{"batch_id": "hello-1", "events": [{{"type": "log", "severity": "info", "title": "Hello"}}]}}'

Look at what came in:   pharos tail{option}
Ship a log file:        pharos send{option} access.log
Deploy:                 pharos deploy{option}
Ask in SQL:             pharos query{option} 'SELECT type, count() FROM pharos.telemetry_events GROUP BY type'
Stop with Ctrl-C; what was accepted is stored first.
"""
