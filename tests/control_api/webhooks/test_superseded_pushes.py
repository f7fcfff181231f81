"""Only the newest of a branch's pushes that wait for approval stays."""

import pytest
from sqlalchemy import select

from control_domain.tables.deployments import Deployment, DeploymentLine
from control_workers.waiting_pushes import WaitingPushWorker
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from tests.support.webhooks import WebhookRepository, push

PRODUCTION = "shop/production"


@pytest.mark.both_databases
async def test_a_queued_waiting_push_cancels_the_older_one(github: WebhookRepository) -> None:
    platform = github.platform
    await platform.change(PRODUCTION, deploys_need_approval=True)
    assert await github.deliver_status(push("github")) == (202, "queued")
    # A rollback needs no approval: it is active.
    live = platform.acme.deployments["production"].id
    rollback = await platform.call("POST", f"/v1/deployments/{live}/rollback")
    assert await github.deliver_status(push("github", before="a" * 40, after="b" * 40)) == (202, "waiting")
    await platform.settle()
    await WaitingPushWorker(platform.sessions, InProcessKeyDirectory()).process_waiting()
    async with platform.sessions() as session:
        made = select(Deployment).where(Deployment.trigger == "push").order_by(Deployment.id)
        older, newer = (await session.execute(made)).scalars()
        lines = select(DeploymentLine.text).where(DeploymentLine.deployment_id == older.id)
        told = (await session.execute(lines.order_by(DeploymentLine.id))).scalars().all()
    assert (older.status, newer.status) == ("canceled", "awaiting_approval")
    assert newer.id > rollback.data["id"] > older.id
    assert newer.revision == "b" * 40
    assert told[-1] == f"Canceled: deployment {newer.id} is for a newer push."
