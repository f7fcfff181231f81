"""Asks an installation something: the `pharos up` that runs on a data folder, or the engines that are set."""

import argparse
import asyncio
import getpass
import json
import os
from datetime import UTC, datetime
from typing import Any

from operator_cli.credentials import add_data_argument
from operator_cli.failure import CommandFailed
from operator_cli.operator_client import ask_operator
from operator_cli.process_settings import load_settings
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.settings import Settings

WHICH = (
    "With PHAROS_DATABASE_URL and PHAROS_REDIS_URL set, of that installation, else of the `pharos up` that runs on the "
    "data folder."
)


def add_ask_arguments(parser: argparse.ArgumentParser) -> None:
    """`--data` and `--json`."""
    add_data_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def ask(arguments: argparse.Namespace, action: str, wanted: dict[str, Any] | None = None) -> Any:
    """The document that the action of this name (`control_api.operator_actions`) gives. Raises `CommandFailed`."""
    settings = load_settings()
    # For the audit log.
    wanted = {**(wanted or {}), "operator": _user()}
    if settings.database_url is None:
        body = json.dumps(wanted)
        answer = asyncio.run(ask_operator(arguments.data, "POST", f"/actions/{action}", body=body))
        return json.loads(answer)
    return asyncio.run(_ask_engines(settings, action, wanted))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container's user may have no name.
        return str(os.getuid())


async def _ask_engines(settings: Settings, action: str, wanted: dict[str, Any]) -> Any:
    # Only here: the socket of `pharos up` needs none of it.
    from sqlalchemy.exc import SQLAlchemyError

    from control_api.operator_actions import ACTIONS
    from control_api.refusals import Refused
    from service_processes.operator_engines import operator_engines

    try:
        async with operator_engines(settings) as engines:
            return await ACTIONS[action](engines, wanted, datetime.now(UTC))
    except (Refused, ValueError, SQLAlchemyError, StorageUnavailable) as error:
        raise CommandFailed(str(error)) from error
