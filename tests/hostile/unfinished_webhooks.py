"""Attack the webhooks of a control plane with bodies that never end, while a Git host delivers pushes.

    python -m tests.hostile.unfinished_webhooks

An attacker without a secret sends bodies of 5 MiB and smaller ones, 67 MB in all, each without its last byte. Attacker
and host have the same address, as behind a gateway that is not trusted, which is the worst case. Five deliveries with a
valid signature follow, one a second. The program prints the responses to them.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.deploy_platform import open_platform, prepare
from tests.support.webhooks import WebhookRepository, connect_webhook, push, sign

# Smaller bodies use the memory budget that larger ones leave: a refused body releases its share.
SIZES = [5 * 2**20] * 13 + [2**16] * 80 + [2**10] * 80 + [2**6] * 40
DELIVERIES = 5


async def _open(webhook: WebhookRepository, size: int) -> asyncio.StreamWriter:
    """Open a connection, and send a body except its last byte."""
    where = urlsplit(webhook.platform.url)
    _, writer = await asyncio.open_connection(where.hostname, where.port)
    lines = ("Host: pharos", "Content-Type: application/json", f"Content-Length: {size}")
    path = f"/api/repositories/{webhook.repository_id}/webhook"
    writer.write("\r\n".join([f"POST {path} HTTP/1.1", *lines, "", ""]).encode())
    writer.write(b" " * (size - 1))
    return writer


@contextlib.asynccontextmanager
async def unfinished(webhook: WebhookRepository, sizes: Sequence[int] = SIZES) -> AsyncIterator[None]:
    """Keep sending unfinished bodies of these sizes during the block."""
    writers = []
    try:
        for size in sizes:
            writers.append(await _open(webhook, size))
            # Bytes that a server does not read stay in the socket buffers.
            with contextlib.suppress(TimeoutError, OSError):
                async with asyncio.timeout(1):
                    await writers[-1].drain()
        yield
    finally:
        for writer in writers:
            writer.transport.abort()


async def deliver(webhook: WebhookRepository, number: int) -> int:
    """Deliver a push with a valid signature; return the status."""
    sent = push(webhook.kind, after=f"{number:040x}")
    headers = {name: str(value) for name, value in sign(webhook.kind, webhook.secret, sent).items()}
    address = f"{webhook.platform.url}/api/repositories/{webhook.repository_id}/webhook"
    headers["Content-Type"] = "application/json"
    async with webhook.platform.http.post(address, data=sent.body, headers=headers) as answer:
        return answer.status


async def attack(webhook: WebhookRepository, sizes: Sequence[int] = SIZES, pause: float = 1.0) -> list[int]:
    """Return the statuses of five signed deliveries during the attack."""
    answers = []
    async with unfinished(webhook, sizes):
        for number in range(1, DELIVERIES + 1):
            answers.append(await deliver(webhook, number))
            await asyncio.sleep(pause)
    return answers


async def _run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        prepared = await prepare(f"sqlite+aiosqlite:///{folder}/prepared.db")
        async with open_platform(prepared, Path(folder)) as platform:
            answers = await attack(await connect_webhook(platform, "github"))
    good = sum(status < 300 for status in answers)
    print(
        f"{sum(SIZES) / 1e6:.0f} MB without an end: {good} of {DELIVERIES} signed deliveries taken, {answers}"
    )


if __name__ == "__main__":
    asyncio.run(_run())
