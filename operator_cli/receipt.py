"""`pharos receipt ID`: what became of a batch."""

import argparse
import http.client
import json
import time
from typing import Any
from urllib.parse import quote, urlsplit

from operator_cli.credentials import add_data_argument, ingest_access, read_credentials
from operator_cli.failure import CommandFailed

_TIMEOUT_SECONDS = 60
_MOST_BYTES = 1024 * 1024


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("receipt", help="show what became of an ingest batch")
    parser.add_argument("id", help="the receipt ID of the 202, rcp_…")
    add_data_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    base_url, key = ingest_access(read_credentials(arguments.data), arguments.data)
    receipt = _read(base_url, key, arguments.id)
    if arguments.json:
        print(json.dumps(receipt, indent=2))
        return 0
    for name, value in receipt.items():
        shown = (
            "-" if value is None or value == [] else ", ".join(value) if isinstance(value, list) else value
        )
        print(f"{name:<12} {shown}")
    return 0


def _read(base_url: str, key: str, receipt: str) -> dict[str, Any]:
    try:
        status, body = _get(f"{base_url}/v1/ingest/receipts/{quote(receipt, safe='')}", key)
    except (http.client.HTTPException, OSError, ValueError) as error:
        raise CommandFailed(f"{base_url} does not answer ({error}). Is `pharos up` running?") from None
    try:
        answer: dict[str, Any] = json.loads(body)
        data: dict[str, Any] = answer["data"] if status == 200 else {}
        detail = answer.get("detail", "")
    except (ValueError, LookupError, TypeError, AttributeError):
        raise CommandFailed(
            f"{base_url} answered {status}, but not with a receipt. Check `base_url` in credentials.json."
        ) from None
    if status != 200:
        raise CommandFailed(f"{status} {detail}")
    return data


def _get(url: str, key: str) -> tuple[int, bytes]:
    """Return status and body of one GET. Raises `HTTPException`, `OSError` and `ValueError`.

    The standard library's client: importing aiohttp alone takes twice the CPU of this command.
    """
    parts = urlsplit(url)
    connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = connect(parts.hostname or "", parts.port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", parts.path, headers={"Authorization": f"Bearer {key}"})
        response = connection.getresponse()
        return response.status, _read_body(response)
    finally:
        connection.close()


def _read_body(response: http.client.HTTPResponse) -> bytes:
    """Raises `HTTPException` and `OSError`, of that `TimeoutError` for a body that comes too slowly, and `ValueError`
    for one that is too large."""
    ends_at = time.monotonic() + _TIMEOUT_SECONDS
    body = bytearray()
    while chunk := response.read1(_MOST_BYTES):
        body += chunk
        if len(body) > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES} bytes")
        if time.monotonic() > ends_at:
            raise TimeoutError(f"not within {_TIMEOUT_SECONDS} s")
    if response.length:
        raise http.client.IncompleteRead(bytes(body), response.length)
    return bytes(body)
