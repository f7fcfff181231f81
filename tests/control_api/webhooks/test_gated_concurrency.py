"""Concurrent pushes to an environment whose deploys wait for approval leave one deployment, and do not deadlock."""

import asyncio
import json
from collections.abc import Awaitable
from datetime import UTC, datetime

import pytest
from sqlalchemy import select

from control_domain.audit import Actor
from control_domain.projects.find import DeployTarget
from control_domain.removals.remove_environment import remove_environment
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment
from control_workers.waiting_pushes import WaitingPushWorker
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from tests.support.webhooks import WebhookRepository, bitbucket_change, encode_request, push

PRODUCTION = "shop/production"


async def _statuses(webhook: WebhookRepository) -> list[str]:
    """Return the statuses of the pushes to production, oldest first."""
    mine = webhook.platform.acme.environment(PRODUCTION).id
    query = select(Deployment.status).where(Deployment.trigger == "push", Deployment.environment_id == mine)
    async with webhook.platform.sessions() as session:
        return list((await session.execute(query.order_by(Deployment.id))).scalars())


@pytest.mark.both_databases
async def test_one_of_several_concurrent_pushes_waits_for_approval(github: WebhookRepository) -> None:
    await github.platform.change(PRODUCTION, deploys_need_approval=True)
    # Set the repository's ID: storing it would make all deliveries wait for the first one.
    await github.deliver_status(push("github"))
    pushes = [github.deliver_status(push("github", after=f"{number:040x}")) for number in range(1, 9)]
    assert set(await asyncio.gather(*pushes)) == {(202, "queued")}
    assert await _statuses(github) == ["canceled"] * 8 + ["awaiting_approval"]


@pytest.mark.both_databases
async def test_a_gated_environment_is_removed_during_pushes(github: WebhookRepository) -> None:
    await github.platform.change(PRODUCTION, deploys_need_approval=True)
    target = github.platform.acme.places[PRODUCTION]

    await github.deliver_status(push("github"))

    async def remove() -> None:
        await asyncio.sleep(0)
        async with github.platform.sessions() as session, session.begin():
            mine = await session.get_one(Environment, target.environment.id)
            await remove_environment(
                session, DeployTarget(mine, target.project), Actor("test"), datetime.now(UTC)
            )

    pushes = [github.deliver_status(push("github", after=f"{number:040x}")) for number in range(1, 21)]
    looks = [
        WaitingPushWorker(github.platform.sessions, InProcessKeyDirectory()).process_waiting()
        for _ in range(5)
    ]
    responses, *_ = await asyncio.gather(asyncio.gather(*pushes), remove(), *looks)
    assert set(responses) <= {(202, "queued"), (202, "waiting"), (409, "repository-not-ready")}


@pytest.mark.both_databases
async def test_pushes_of_several_branches_in_any_order(github: WebhookRepository) -> None:
    await github.change_kind("bitbucket")
    for name in (PRODUCTION, "shop/staging"):
        await github.platform.change(name, deploys_need_approval=True)

    await github.deliver_status(push("bitbucket"))

    def both(number: int) -> Awaitable[tuple[int, str]]:
        branches = ["main", "develop"] if number % 2 else ["develop", "main"]
        changes = [bitbucket_change(branch, after=f"{number:040x}") for branch in branches]
        payload = {**json.loads(push("bitbucket").body), "push": {"changes": changes}}
        return github.deliver_status(encode_request("repo:push", payload))

    assert set(await asyncio.gather(*(both(number) for number in range(1, 13)))) == {(202, "queued")}
    assert (await _statuses(github)).count("awaiting_approval") == 1
