"""Sends requests of the operator to the installation of this machine."""

import argparse
import json
import os
import sys
from datetime import UTC, datetime
from typing import Any

from operator_cli.api.problems import describe_problem
from operator_cli.credentials import DEFAULT_DATA
from operator_cli.errors import CommandFailed, InstallationUnreachable
from operator_cli.local.operator_socket import post_to_socket
from operator_cli.paused_garbage_collector import paused_garbage_collector
from operator_cli.settings import load_settings
from operator_cli.terminal_text import sanitize
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.settings import Settings

WHICH_INSTALLATION = (
    "Only an operator of the machine can run this: it uses the database of PHAROS_DATABASE_URL if that is set, else "
    "the running `pharos up` of the data folder."
)


def request_as_operator(arguments: argparse.Namespace, request: Any) -> Any:
    """Return the `data` of the answer to a request of `pipeline_contracts.operator_requests`, with its `warning` on
    standard error. Raises `CommandFailed`."""
    # Imported here: `--help` does not need it.
    import msgspec

    from pipeline_contracts.operator_requests import OperatorCall

    body = msgspec.json.encode(OperatorCall(operator=_user(), request=request))
    settings = load_settings()
    if settings.database_url is None:
        status, content = post_to_socket(arguments.data or DEFAULT_DATA, "/calls", body)
    else:
        # Imported here: the socket of `pharos up` does not need it.
        import asyncio

        status, content = asyncio.run(_call_on_engines(settings, body))
    try:
        document = json.loads(content)
    except ValueError:
        text = content.decode(errors="replace")
        raise (InstallationUnreachable if status == 503 else CommandFailed)(text) from None
    if status != 200:
        raise describe_problem(status, document)
    if "warning" in document:
        print(f"pharos: {sanitize(document['warning'])}", file=sys.stderr)
    return document["data"]


async def _call_on_engines(settings: Settings, body: bytes) -> tuple[int, bytes]:
    with paused_garbage_collector():
        from sqlalchemy.exc import SQLAlchemyError

        from wiring.database_errors import describe_database_error
        from wiring.operator_door import answer_operator_call
        from wiring.processes.operator_engines import open_operator_engines

    try:
        async with open_operator_engines(settings) as engines:
            return await answer_operator_call(engines, body, datetime.now(UTC))
    except SQLAlchemyError as error:
        raise InstallationUnreachable(describe_database_error(error)) from error
    except StorageUnavailable as error:
        raise InstallationUnreachable(str(error)) from error


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container's user may have no name.
        return str(os.getuid())
