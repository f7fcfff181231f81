"""Asks an installation something: the `pharos up` that runs on a data folder, or the engines that are set."""

import argparse
import asyncio
import getpass
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Any

from operator_cli.credentials import add_data_argument
from operator_cli.failure import CommandFailed, NotReached
from operator_cli.operator_client import ask_operator
from operator_cli.paused_garbage_collector import paused_garbage_collector
from operator_cli.process_settings import load_settings
from pipeline_contracts.errors import StorageUnavailable

WHICH = (
    "With PHAROS_DATABASE_URL and PHAROS_REDIS_URL set, of that installation, else of the `pharos up` that runs on the "
    "data folder."
)

Ask = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Gets an action's name and its parameters, gives its document."""


def add_ask_arguments(parser: argparse.ArgumentParser) -> None:
    """`--data` and `--json`."""
    add_data_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def ask(arguments: argparse.Namespace, action: str, wanted: dict[str, Any] | None = None) -> Any:
    """The document that the action of this name (`operator_actions.door`) gives. Raises `CommandFailed`."""
    return asyncio.run(_ask_once(arguments, action, wanted or {}))


async def _ask_once(arguments: argparse.Namespace, action: str, wanted: dict[str, Any]) -> Any:
    async with asking(arguments) as ask_again:
        return await ask_again(action, wanted)


@asynccontextmanager
async def asking(arguments: argparse.Namespace) -> AsyncIterator[Ask]:
    """What asks the same as `ask`, as often as is needed. Raises `CommandFailed`; of that, `NotReached` where the
    installation does not answer just now."""
    settings = load_settings()
    # For the audit log.
    operator = {"operator": _user()}
    if settings.database_url is None:

        async def ask_socket(action: str, wanted: dict[str, Any]) -> Any:
            body = json.dumps({**wanted, **operator})
            return json.loads(await ask_operator(arguments.data, "POST", f"/actions/{action}", body=body))

        yield ask_socket
        return
    # Only here: the socket of `pharos up` needs none of it.
    with paused_garbage_collector():
        from operator_actions.door import ACTIONS
        from wiring.processes.operator_engines import operator_engines

    async with AsyncExitStack() as stack:
        with _failing():
            engines = await stack.enter_async_context(operator_engines(settings))

        async def ask_engines(action: str, wanted: dict[str, Any]) -> Any:
            with _failing():
                return await ACTIONS[action](engines, {**wanted, **operator}, datetime.now(UTC))

        yield ask_engines


@contextmanager
def _failing() -> Iterator[None]:
    """What engines and actions raise, as a command that has failed."""
    from sqlalchemy.exc import SQLAlchemyError

    from control_domain.refusals import Refused

    try:
        yield
    except (SQLAlchemyError, StorageUnavailable) as error:
        raise NotReached(str(error)) from error
    except (Refused, ValueError) as error:
        raise CommandFailed(str(error)) from error


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container's user may have no name.
        return str(os.getuid())
