"""Requests to the operator socket of a running `pharos up`."""

import json
import socket
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from operator_cli.errors import CommandFailed, InstallationUnreachable

_TIMEOUT_SECONDS: Final = 300.0


class NothingRuns(InstallationUnreachable):
    """No `pharos up` runs on the data folder."""


def post_to_socket(data: Path, path: str, body: bytes) -> tuple[int, bytes]:
    """Send a request to the `pharos up` on a data folder and return the status and body of its response.

    Raises `InstallationUnreachable` if nothing runs on the folder, or it has no response.
    """
    # Imported here: an error in the arguments comes first, and plain HTTP needs no TLS, which this would import.
    from operator_cli.api.http_connection import import_http_client

    client = import_http_client(with_tls=False)
    file = data / "operator.sock"
    connection = client.HTTPConnection("operator", timeout=_TIMEOUT_SECONDS)
    try:
        connection.sock = _connect(data, file)
        connection.request("POST", path, body=body, headers={"Content-Type": "text/plain; charset=utf-8"})
        response = connection.getresponse()
        content = response.read()
    except TimeoutError:
        raise InstallationUnreachable(
            f"The `pharos up` on {data} has not answered within {_TIMEOUT_SECONDS:g} s. It may have done what you "
            "asked: check before you repeat it."
        ) from None
    except (client.HTTPException, OSError):
        raise InstallationUnreachable(
            f"The `pharos up` on {data} ended before it answered. It may have done what you asked: check before you "
            "repeat it."
        ) from None
    finally:
        connection.close()
    if response.status == HTTPStatus.NOT_FOUND and response.headers.get_content_type() == "text/plain":
        # A problem of a request that it knows is JSON.
        raise CommandFailed(f"The `pharos up` on {data} is of another version than this command: restart it.")
    return response.status, content


def stream_from_socket(data: Path, path: str, body: bytes) -> Iterator[dict[str, Any]]:
    """Send a request and yield the JSON lines of its response as they arrive. Closing the iterator disconnects.

    Raises `NothingRuns`, `InstallationUnreachable`, and `CommandFailed` for a refusal.
    """
    from operator_cli.api.http_connection import import_http_client

    client = import_http_client(with_tls=False)
    connection = client.HTTPConnection("operator", timeout=_TIMEOUT_SECONDS)
    connection.sock = _connect(data, data / "operator.sock")
    try:
        connection.request("POST", path, body=body)
        response = connection.getresponse()
        if response.status == HTTPStatus.NOT_FOUND:
            raise CommandFailed(
                f"The `pharos up` on {data} is of another version than this command: restart it."
            )
        if response.status != HTTPStatus.OK:
            raise CommandFailed(response.read().decode(errors="replace"))
        while line := response.readline():
            yield json.loads(line)
    except (client.HTTPException, OSError, ValueError):
        raise InstallationUnreachable(f"The `pharos up` on {data} ended before it answered.") from None
    finally:
        connection.close()


def _connect(data: Path, file: Path) -> socket.socket:
    connected = socket.socket(socket.AF_UNIX)
    try:
        connected.settimeout(_TIMEOUT_SECONDS)
        connected.connect(str(file))
    except PermissionError:
        connected.close()
        raise InstallationUnreachable(
            f"{file} belongs to another user. Run this as the user who runs `pharos up`."
        ) from None
    except OSError:
        connected.close()
        raise NothingRuns(
            f"Nothing runs on {data}. Go to the folder where Pharos started, name its data folder with --data DIR, "
            f"or start `pharos up --data {data}`."
        ) from None
    return connected


def query_socket(data: Path, sql: str) -> str:
    """Return the rows of a query as JSON lines. Raises `CommandFailed`."""
    status, content = post_to_socket(data, "/query", sql.encode())
    text = content.decode(errors="replace")
    if status == 503:
        raise InstallationUnreachable(text)
    if status != 200:
        raise CommandFailed(text)
    return text
