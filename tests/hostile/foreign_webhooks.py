"""Send events of another repository to a webhook, as group, organization and system hooks do.

    python -m tests.hostile.foreign_webhooks

For each Git host: the connected repository has the preview `pr-7`; then another repository of the same owner, whose
payloads come to the same address with the same signature, merges its own request 7 and pushes its own `main`. The
program prints whether the preview still exists, and how many deployments that push has caused.
"""

import asyncio
import tempfile
from pathlib import Path

from sqlalchemy import func, select

from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment
from tests.support.deploy_platform import open_platform, prepare
from tests.support.webhooks import KINDS, WebhookRepository, WebhookRequest, connect_webhook, pull, push

_FOREIGN = (b"Acme/Shop", b"Acme/Till")


def _foreign(sent: WebhookRequest) -> WebhookRequest:
    """Return the same event of another repository, with another ID at its host."""
    body = sent.body.replace(*_FOREIGN).replace(b'"id": 1,', b'"id": 2,')
    return WebhookRequest(sent.event, body.replace(b'000000001}"', b'000000002}"'))


async def attack(webhook: WebhookRepository) -> tuple[int, int]:
    """Return the number of remaining previews of one, and of deployments by pushes."""
    await webhook.deliver(pull(webhook.kind))
    await webhook.deliver(_foreign(pull(webhook.kind, "closed")))
    await webhook.deliver(_foreign(push(webhook.kind)))
    async with webhook.platform.sessions() as session:
        previews = select(func.count()).where(Environment.type == "preview")
        pushed = select(func.count()).where(Deployment.trigger == "push")
        return (await session.execute(previews)).scalar_one(), (await session.execute(pushed)).scalar_one()


async def _run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        prepared = await prepare(f"sqlite+aiosqlite:///{folder}/prepared.db")
        for kind in KINDS:
            place = Path(folder) / kind
            place.mkdir()
            async with open_platform(prepared, place) as platform:
                previews, pushed = await attack(await connect_webhook(platform, kind))
            print(f"{kind}: {previews} of 1 preview left, {pushed} deployments of another repository's push")


if __name__ == "__main__":
    asyncio.run(_run())
