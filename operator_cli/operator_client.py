"""Sends requests to the operator socket of a running `pharos up`."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

from operator_cli.failure import CommandFailed, NotReached

_TIMEOUT_SECONDS = 300


async def ask_operator(
    data: Path, method: str, path: str, *, params: Mapping[str, str] | None = None, body: str | None = None
) -> bytes:
    """Return the body of the response. Raises `NotReached` if nothing runs on the data folder or its engines are
    away, `CommandFailed` for any other status than 200."""
    target = f"{path}?{urlencode(params)}" if params else path
    socket = data / "operator.sock"
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            status, content = await _exchange(socket, method, target, (body or "").encode())
    except TimeoutError:
        raise NotReached(
            f"The `pharos up` on {data} has not answered within {_TIMEOUT_SECONDS} s. {_advice(path)}"
        ) from None
    except (EOFError, ConnectionResetError, BrokenPipeError):
        raise NotReached(f"The `pharos up` on {data} ended before it answered. {_advice(path)}") from None
    except PermissionError:
        raise NotReached(
            f"{socket} belongs to another user. Run this as the user who runs `pharos up`."
        ) from None
    except OSError:
        raise NotReached(
            f"Nothing runs on {data}. Start `pharos up --data {data}`, or name another --data."
        ) from None
    if status == 503:
        raise NotReached(content.decode(errors="replace"))
    if status != 200:
        raise CommandFailed(content.decode(errors="replace"))
    return content


def _advice(path: str) -> str:
    """What to do about a request that was sent and has no response."""
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
