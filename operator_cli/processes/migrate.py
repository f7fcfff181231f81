"""Command `pharos migrate`: create and upgrade topics, tables and the database for this version."""

import argparse
import asyncio
import json
from pathlib import Path

from operator_cli.errors import CommandFailed
from operator_cli.paused_garbage_collector import paused_garbage_collector
from operator_cli.processes.process_logs import start_logs
from operator_cli.settings import load_settings
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.settings import Settings


def register_migrate(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "migrate",
        help="bring Kafka, ClickHouse and the database to this version",
        description="Create the topics, tables and database tables that are missing. Run it before the services start "
        "and at each upgrade; running it again, or twice at once, is harmless.",
    )
    parser.add_argument(
        "--credentials",
        type=Path,
        metavar="FILE",
        help="create a first account if there is none, and write its keys to FILE",
    )
    parser.add_argument(
        "--base-url",
        default="http://127.0.0.1:8000/api",
        help="with --credentials: the API's address that FILE names (http://127.0.0.1:8000/api)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    settings = load_settings()
    start_logs(settings.log_level, settings.log_format)
    try:
        asyncio.run(_migrate(settings, arguments))
    except StorageUnavailable as error:
        raise CommandFailed(f"{error} What was done before this stays done; run it again.") from error
    return 0


async def _migrate(settings: Settings, arguments: argparse.Namespace) -> None:
    with paused_garbage_collector():
        from wiring.processes.migrate import ensure_account, migrate

    async for engine, done in migrate(settings):
        if arguments.json:
            print(json.dumps({"engine": engine, "done": done}), flush=True)
        else:
            print(f"{engine}: {done}", flush=True)
    if arguments.credentials is not None:
        await ensure_account(settings, arguments.credentials, arguments.base_url)
        if not arguments.json:
            print(f"Credentials of the first account: {arguments.credentials}")
