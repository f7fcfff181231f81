"""`pharos receipt ID`: what became of a batch."""

import argparse
import asyncio
import json
from typing import Any

import aiohttp

from operator_cli.credentials import add_data_argument, read_credentials
from operator_cli.failure import CommandFailed


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("receipt", help="show what became of an ingest batch")
    parser.add_argument("id", help="the receipt ID of the 202, rcp_…")
    add_data_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    credentials = read_credentials(arguments.data)
    receipt = asyncio.run(_read(credentials, arguments.id))
    if arguments.json:
        print(json.dumps(receipt, indent=2))
        return 0
    for name, value in receipt.items():
        shown = (
            "-" if value is None or value == [] else ", ".join(value) if isinstance(value, list) else value
        )
        print(f"{name:<12} {shown}")
    return 0


async def _read(credentials: dict[str, Any], receipt: str) -> dict[str, Any]:
    url = f"{credentials['base_url']}/v1/ingest/receipts/{receipt}"
    headers = {"Authorization": f"Bearer {credentials['ingest_key']}"}
    try:
        async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as response:
            answer: dict[str, Any] = await response.json(content_type=None)
    except (aiohttp.ClientError, ValueError) as error:
        raise CommandFailed(
            f"{credentials['base_url']} does not answer ({error}). Is `pharos up` running?"
        ) from None
    if response.status != 200:
        raise CommandFailed(f"{response.status} {answer.get('detail', '')}")
    data: dict[str, Any] = answer["data"]
    return data
