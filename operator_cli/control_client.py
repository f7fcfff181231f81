"""Requests to an installation: through the operator socket of a `pharos up`, or straight to the configured engines."""

import argparse
import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from operator_cli.credentials import add_data_argument
from operator_cli.errors import CommandFailed, InstallationUnreachable
from operator_cli.paused_garbage_collector import paused_garbage_collector
from operator_cli.settings import load_settings
from pipeline_contracts.errors import StorageUnavailable

_TIMEOUT_SECONDS = 300

WHICH_INSTALLATION = (
    "Uses the installation of PHAROS_DATABASE_URL and PHAROS_REDIS_URL if both are set, else the running `pharos up` "
    "of the data folder."
)
WHICH_INSTALLATION_AND_STORE = f"{WHICH_INSTALLATION} The first case also needs PHAROS_CLICKHOUSE_URL."

RequestAction = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Takes the name of an action (`operator_actions.door`) and its parameters, returns its JSON document."""


def add_data_and_json_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--data` and `--json`."""
    add_data_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def request_action(arguments: argparse.Namespace, action: str, params: dict[str, Any] | None = None) -> Any:
    """Return the JSON document of one action. Raises `CommandFailed`."""
    return asyncio.run(_request_once(arguments, action, params or {}))


async def _request_once(arguments: argparse.Namespace, action: str, params: dict[str, Any]) -> Any:
    async with open_client(arguments) as request:
        return await request(action, params)


@asynccontextmanager
async def open_client(arguments: argparse.Namespace) -> AsyncIterator[RequestAction]:
    """Open what several actions are requested through.

    Raises `InstallationUnreachable` if the installation does not respond, `CommandFailed` for other failures.
    """
    settings = load_settings()
    # For the audit log.
    operator = {"operator": _user()}
    if settings.database_url is None:

        async def request_from_socket(action: str, params: dict[str, Any]) -> Any:
            body = json.dumps({**params, **operator})
            return json.loads(await request_socket(arguments.data, "POST", f"/actions/{action}", body=body))

        yield request_from_socket
        return
    # Imported here: the socket of `pharos up` needs none of these modules.
    with paused_garbage_collector():
        from operator_actions.door import ACTIONS
        from wiring.processes.operator_engines import operator_engines

    async with AsyncExitStack() as stack:
        with _command_errors():
            engines = await stack.enter_async_context(operator_engines(settings))

        async def run_on_engines(action: str, params: dict[str, Any]) -> Any:
            with _command_errors():
                return await ACTIONS[action](engines, {**params, **operator}, datetime.now(UTC))

        yield run_on_engines


@contextmanager
def _command_errors() -> Iterator[None]:
    """Raise errors of engines and actions as `CommandFailed`."""
    from sqlalchemy.exc import SQLAlchemyError

    from operator_actions.refusals import Refused

    try:
        yield
    except (SQLAlchemyError, StorageUnavailable) as error:
        raise InstallationUnreachable(str(error)) from error
    except (Refused, ValueError) as error:
        raise CommandFailed(str(error)) from error


def _user() -> str:
    # Imported here: queries of events do not need it.
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container's user may have no name.
        return str(os.getuid())


async def request_socket(
    data: Path, method: str, path: str, *, params: Mapping[str, str] | None = None, body: str | None = None
) -> bytes:
    """Send one request to the operator socket of a `pharos up` and return the body of the response.

    Raises `InstallationUnreachable` if nothing runs on the data folder or its engines are down, `CommandFailed` for
    any other status than 200.
    """
    target = f"{path}?{urlencode(params)}" if params else path
    socket = data / "operator.sock"
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            status, content = await _exchange(socket, method, target, (body or "").encode())
    except TimeoutError:
        raise InstallationUnreachable(
            f"The `pharos up` on {data} has not answered within {_TIMEOUT_SECONDS} s. {_advice(path)}"
        ) from None
    except (EOFError, ConnectionResetError, BrokenPipeError):
        raise InstallationUnreachable(
            f"The `pharos up` on {data} ended before it answered. {_advice(path)}"
        ) from None
    except PermissionError:
        raise InstallationUnreachable(
            f"{socket} belongs to another user. Run this as the user who runs `pharos up`."
        ) from None
    except OSError:
        raise InstallationUnreachable(
            f"Nothing runs on {data}. Start `pharos up --data {data}`, or name another --data."
        ) from None
    if status == 503:
        raise InstallationUnreachable(content.decode(errors="replace"))
    if status != 200:
        raise CommandFailed(content.decode(errors="replace"))
    return content


def _advice(path: str) -> str:
    """Return what to do about a request that was sent and has no response."""
    if path.startswith("/actions/"):
        return "It may have done what you asked: check before you repeat it."
    return "Look at its log, then try again."


async def _exchange(socket: Path, method: str, target: str, body: bytes) -> tuple[int, bytes]:
    """Send one request and return status and body of the response. Raises `OSError`, and `EOFError` for a response
    that is cut short.

    Written by hand because importing an HTTP client costs more CPU than the rest of a command. HTTP/1.0 keeps it
    short: the response is not chunked and ends with the connection.
    """
    head = (
        f"{method} {target} HTTP/1.0\r\nHost: operator\r\n"
        f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_unix_connection(str(socket))
    try:
        writer.write(head.encode("ascii") + body)
        received = await reader.read()
    finally:
        writer.close()
    return _parse_response(received)


def _parse_response(received: bytes) -> tuple[int, bytes]:
    """Return status and body. Raises `EOFError` for a response that is cut short or not one of HTTP."""
    head, _, content = received.partition(b"\r\n\r\n")
    status_line, *lines = head.split(b"\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(b":") for line in lines)}
    try:
        status, length = int(status_line.split()[1]), int(headers[b"content-length"])
    except (LookupError, ValueError):
        raise EOFError("The connection ended before the response.") from None
    if len(content) < length:
        raise EOFError("The connection ended within the response.")
    return status, content
