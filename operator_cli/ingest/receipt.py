"""Command `pharos receipt`: the status of an ingested batch."""

import argparse
import http.client
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from operator_cli.credentials import add_data_argument, get_ingest_access, read_credentials
from operator_cli.errors import CommandFailed

_TIMEOUT_SECONDS = 60
_MAX_BYTES = 1024 * 1024
_LABELS = {
    "batch_id": "batch ID",
    # The name in the API is "clamped".
    "clamped": "times changed",
    "received_at": "received at",
    "stored_at": "stored at",
}
_MOVED_TIMES = (
    "Times changed: events that were over 24 h in the future, or before 1900, got the time of their receipt. Check the "
    "clock of the sender."
)


def register_receipt(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "receipt",
        help="show whether an ingest batch is stored",
        description="Show the receipt of an ingest batch: whether its events are stored, and which were refused. Needs "
        "the ingest key in the data folder.",
    )
    parser.add_argument("id", metavar="RECEIPT", help="the ID in the answer 202 to the batch: rcp_…")
    add_data_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    base_url, key = get_ingest_access(read_credentials(arguments.data), arguments.data)
    receipt = _request_receipt(base_url, key, arguments.id, arguments.data)
    if arguments.json:
        print(json.dumps(receipt, indent=2))
        return 0
    for name, value in receipt.items():
        text = "-" if value is None or value == [] else ", ".join(value) if isinstance(value, list) else value
        print(f"{_LABELS.get(name, name):<13} {text}")
    if receipt.get("clamped"):
        print(_MOVED_TIMES)
    return 0


def _request_receipt(base_url: str, key: str, receipt: str, folder: Path) -> dict[str, Any]:
    try:
        status, body = _get(f"{base_url}/v1/ingest/receipts/{quote(receipt, safe='')}", key)
    except (http.client.HTTPException, OSError, ValueError) as error:
        raise CommandFailed(f"{base_url} does not answer ({error}). Is `pharos up` running?") from None
    try:
        document: dict[str, Any] = json.loads(body)
        data: dict[str, Any] = document["data"] if status == 200 else {}
        detail = document.get("detail", "")
    except (ValueError, LookupError, TypeError, AttributeError):
        raise CommandFailed(
            f"{base_url} answered {status}, but not with a receipt. Check `base_url` in credentials.json."
        ) from None
    if status == 401:
        raise CommandFailed(
            f"{base_url} refused the ingest_key of {folder / 'credentials.json'}: {detail} Name the folder of this "
            "installation with --data."
        )
    if status != 200:
        raise CommandFailed(f"{status} {detail}")
    return data


def _get(url: str, key: str) -> tuple[int, bytes]:
    """Return status and body of one GET. Raises `HTTPException`, `OSError` and `ValueError`.

    Uses the standard library: importing aiohttp takes twice the CPU of this command.
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
    """Return the body. Raises `HTTPException`, `OSError`, and `ValueError` for a large body."""
    ends_at = time.monotonic() + _TIMEOUT_SECONDS
    body = bytearray()
    while chunk := response.read1(_MAX_BYTES):
        body += chunk
        if len(body) > _MAX_BYTES:
            raise ValueError(f"more than {_MAX_BYTES} bytes")
        if time.monotonic() > ends_at:
            raise TimeoutError(f"not within {_TIMEOUT_SECONDS} s")
    if response.length:
        raise http.client.IncompleteRead(bytes(body), response.length)
    return bytes(body)
