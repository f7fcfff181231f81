"""Wait until accepted batches are stored."""

import asyncio
import time
from collections.abc import Sequence

import aiohttp
import msgspec

from operator_cli.errors import CommandFailed
from operator_cli.ingest.sending.backoff import Backoff, parse_retry_after

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0


class _Receipt(msgspec.Struct):
    status: str
    errors: list[str] = []


class _Response(msgspec.Struct):
    data: _Receipt


async def wait_until_stored(
    session: aiohttp.ClientSession, base_url: str, receipts: Sequence[str], backoff: Backoff
) -> None:
    """Poll each receipt until it is no longer queued. Raises `CommandFailed` that lists the failed ones."""
    failed = []
    for identity in receipts:
        receipt = await _wait_for(session, f"{base_url}/v1/ingest/receipts/{identity}", backoff)
        if receipt.status == "failed":
            failed.append(f"{identity}: {'; '.join(receipt.errors) or 'no reason given'}")
    if failed:
        raise CommandFailed("These batches could not be stored:\n" + "\n".join(failed))


async def _wait_for(session: aiohttp.ClientSession, url: str, backoff: Backoff) -> _Receipt:
    pause = _FIRST_PAUSE
    while True:
        await backoff.wait()
        try:
            async with session.get(url, allow_redirects=False) as response:
                content = await response.read()
                retry_after = response.headers.get("Retry-After")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            backoff.record_failure(f"the receipts cannot be read ({type(error).__name__})", None)
            continue
        if response.status == 429 or response.status >= 500:
            backoff.record_failure(
                f"the receipts are answered {response.status}", parse_retry_after(retry_after, time.time())
            )
            continue
        if response.status != 200:
            raise CommandFailed(f"{url} answers {response.status}.")
        backoff.record_success()
        try:
            receipt = msgspec.json.decode(content, type=_Response).data
        except msgspec.DecodeError:
            raise CommandFailed(f"{url} holds no receipt. Is it a Pharos?") from None
        if receipt.status != "queued":
            return receipt
        await asyncio.sleep(pause)
        pause = min(_LONGEST_PAUSE, pause * 1.5)
