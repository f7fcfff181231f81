"""Concurrent webhooks, workers, deploys and removals do not deadlock, and deploy nothing twice."""

import asyncio
from collections import Counter
from datetime import UTC, datetime

import pytest
from sqlalchemy import select, update

from control_domain.audit import Actor
from control_domain.projects.find import DeployTarget
from control_domain.removals.remove_environment import remove_environment
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import WaitingPush
from control_workers.waiting_pushes import WaitingPushWorker
from pipeline_contracts.deploy_states import ACTIVE_STATUSES
from pipeline_contracts.errors import DeployRunning
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from tests.support.webhooks import WebhookRepository, pull, push


def _worker(webhook: WebhookRepository) -> WaitingPushWorker:
    return WaitingPushWorker(webhook.platform.sessions, InProcessKeyDirectory())


async def _end_active(webhook: WebhookRepository) -> None:
    async with webhook.platform.sessions() as session, session.begin():
        active = update(Deployment).where(
            Deployment.status.in_(ACTIVE_STATUSES), Deployment.trigger == "push"
        )
        await session.execute(active.values(status="succeeded"))


@pytest.mark.both_databases
async def test_concurrent_pushes_workers_and_ending_deployments(github: WebhookRepository) -> None:
    async def deploy_on() -> None:
        for _ in range(15):
            await _end_active(github)
            await asyncio.gather(*(_worker(github).process_waiting() for _ in range(2)))

    pushes = [github.deliver_status(push("github", after=f"{number:040x}")) for number in range(1, 41)]
    responses, _ = await asyncio.gather(asyncio.gather(*pushes), deploy_on())
    assert set(responses) <= {(202, "queued"), (202, "waiting")}
    for _ in range(3):
        await _end_active(github)
        await _worker(github).process_waiting()
    async with github.platform.sessions() as session:
        assert (await session.execute(select(WaitingPush.id))).all() == []
        query = select(Deployment.id).where(Deployment.trigger == "push")
        made = len((await session.execute(query)).all())
    assert Counter(responses)[202, "queued"] <= made <= len(responses)


@pytest.mark.both_databases
async def test_an_environment_is_removed_during_pushes(github: WebhookRepository) -> None:
    target = github.platform.acme.places["shop/production"]

    async def remove() -> None:
        for _ in range(50):
            await _end_active(github)
            try:
                async with github.platform.sessions() as session, session.begin():
                    mine = await session.get_one(Environment, target.environment.id)
                    await remove_environment(
                        session, DeployTarget(mine, target.project), Actor("test"), datetime.now(UTC)
                    )
            except DeployRunning:
                continue
            return
        raise AssertionError("the environment could not be removed")

    pushes = [github.deliver_status(push("github", after=f"{number:040x}")) for number in range(1, 31)]
    looks = [_worker(github).process_waiting() for _ in range(10)]
    responses, *_ = await asyncio.gather(asyncio.gather(*pushes), remove(), *looks)
    assert set(responses) <= {(202, "queued"), (202, "waiting"), (409, "repository-not-ready")}
    assert await github.waiting() == []


@pytest.mark.both_databases
async def test_a_pull_request_is_opened_changed_and_closed_concurrently(github: WebhookRepository) -> None:
    sent = [
        *(pull("github", "opened") for _ in range(4)),
        *(pull("github", "updated", revision=f"{number:040x}") for number in range(8)),
        *(pull("github", "closed") for _ in range(4)),
    ]
    responses = await asyncio.gather(*(github.deliver_status(one) for one in sent))
    answers = {"preview_queued", "preview_updated", "preview_closed", "ignored", "repository-not-ready"}
    assert {word for _, word in responses} <= answers
    await github.deliver_status(pull("github", "closed"))
    async with github.platform.sessions() as session:
        query = select(Environment.id).where(Environment.slug == "pr-7")
        assert (await session.execute(query)).all() == []


@pytest.mark.both_databases
async def test_a_repository_is_disconnected_during_pushes(github: WebhookRepository) -> None:
    async def disconnect() -> None:
        await asyncio.sleep(0)
        async with github.platform.sessions() as session, session.begin():
            mine = Repository.id == github.repository_id
            await session.execute(select(Repository.id).where(mine).with_for_update())
            await session.execute(update(Repository).where(mine).values(disconnected_at=datetime.now(UTC)))
            waiting = WaitingPush.__table__.delete().where(WaitingPush.repository_id == github.repository_id)
            await session.execute(waiting)

    pushes = [github.deliver_status(push("github", after=f"{number:040x}")) for number in range(1, 31)]
    looks = [_worker(github).process_waiting() for _ in range(10)]
    responses, *_ = await asyncio.gather(asyncio.gather(*pushes), disconnect(), *looks)
    assert set(responses) <= {(202, "queued"), (202, "waiting"), (404, "not-found")}


async def test_a_trigger_for_a_removed_environment(github: WebhookRepository) -> None:
    target = github.platform.acme.places["shop/production"]
    async with github.platform.sessions() as session, session.begin():
        mine = await session.get_one(Environment, target.environment.id)
        await remove_environment(
            session, DeployTarget(mine, target.project), Actor("test"), datetime.now(UTC)
        )
    assert (await github.deliver(push("github"))).problem == (409, "repository-not-ready")
