"""`pharos receipt ID`: what became of a batch."""

import argparse
import http.client
import json
from typing import Any
from urllib.parse import quote, urlsplit

from operator_cli.credentials import add_data_argument, read_credentials
from operator_cli.failure import CommandFailed

_SECONDS = 300


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("receipt", help="show what became of an ingest batch")
    parser.add_argument("id", help="the receipt ID of the 202, rcp_…")
    add_data_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    credentials = read_credentials(arguments.data)
    receipt = _read(credentials, arguments.id)
    if arguments.json:
        print(json.dumps(receipt, indent=2))
        return 0
    for name, value in receipt.items():
        shown = (
            "-" if value is None or value == [] else ", ".join(value) if isinstance(value, list) else value
        )
        print(f"{name:<12} {shown}")
    return 0


def _read(credentials: dict[str, Any], receipt: str) -> dict[str, Any]:
    base_url = credentials["base_url"]
    try:
        status, answer = _get(
            f"{base_url}/v1/ingest/receipts/{quote(receipt, safe='')}", credentials["ingest_key"]
        )
    except (http.client.HTTPException, OSError, ValueError) as error:
        raise CommandFailed(f"{base_url} does not answer ({error}). Is `pharos up` running?") from None
    if status != 200:
        raise CommandFailed(f"{status} {answer.get('detail', '')}")
    data: dict[str, Any] = answer["data"]
    return data


def _get(url: str, key: str) -> tuple[int, dict[str, Any]]:
    """Return status and JSON document of one GET. Raises `HTTPException`, `OSError` and `ValueError`.

    The standard library's client: importing aiohttp alone takes twice the CPU of this command.
    """
    parts = urlsplit(url)
    connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = connect(parts.netloc, timeout=_SECONDS)
    try:
        connection.request("GET", parts.path, headers={"Authorization": f"Bearer {key}"})
        response = connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
    finally:
        connection.close()
    return response.status, answer
