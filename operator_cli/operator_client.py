"""Asks the operator's socket of a running `pharos up`."""

from collections.abc import Mapping
from pathlib import Path

import aiohttp

from operator_cli.failure import CommandFailed, NotReached


async def ask_operator(
    data: Path, method: str, path: str, *, params: Mapping[str, str] | None = None, body: str | None = None
) -> bytes:
    """The body of the answer. Raises `NotReached` when nothing runs on the folder or its engines are away,
    `CommandFailed` when it says no."""
    socket = data / "operator.sock"
    connector = aiohttp.UnixConnector(str(socket))
    try:
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.request(method, f"http://operator{path}", params=params, data=body) as response,
        ):
            content = await response.read()
    except aiohttp.ClientError:
        raise NotReached(
            f"Nothing runs on {data}. Start `pharos up --data {data}`, or name another --data."
        ) from None
    if response.status == 503:
        raise NotReached(content.decode(errors="replace"))
    if response.status != 200:
        raise CommandFailed(content.decode(errors="replace"))
    return content
