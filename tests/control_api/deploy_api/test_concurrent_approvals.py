"""Approvals concurrent with a newer push of the same branch."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from control_domain.audit import Actor
from control_domain.deployments.decisions import approve_deployment
from control_domain.deployments.queue_deployment import DeploymentRequest, queue_deployment
from control_domain.projects.find import DeployTarget
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment, Project
from control_domain.webhooks.waiting_pushes import cancel_superseded
from pipeline_contracts.deploy_states import ForbiddenTransition
from pipeline_contracts.errors import DeployRunning
from tests.support.deploy_platform import Platform, add_deployment
from tests.support.lock_waits import ends_or_waits

NOW = datetime.now(UTC) + timedelta(seconds=1)
NAME = "shop/production"
_PUSH = DeploymentRequest("push", ref="main", pushed_revision="c" * 40)


async def _waiting(platform: Platform) -> int:
    """Queue a push that waits for approval."""
    await platform.change(NAME, deploys_need_approval=True)
    row = {"status": "awaiting_approval", "revision": "b" * 40, "needs_approval": True, "frozen_at": NOW}
    async with platform.sessions() as session, session.begin():
        made = await add_deployment(
            session, platform.acme, NAME, NOW, **row, trigger="push", ref="main", asked_by_id=None
        )
        return made.id


async def _approve(platform: Platform, number: int) -> str:
    person = platform.acme.people["maintainer"]
    try:
        async with platform.sessions() as session, session.begin():
            deployment = await session.get_one(Deployment, number)
            environment = await session.get_one(Environment, platform.acme.environment(NAME).id)
            actor = Actor("operator test", person_id=person.id)
            await approve_deployment(session, deployment, environment, person, None, actor, NOW)
    except (ForbiddenTransition, DeployRunning) as refused:
        return type(refused).__name__
    return "approved"


@pytest.mark.both_databases
async def test_concurrent_approval_and_newer_push_do_not_deadlock(platform: Platform) -> None:
    number = await _waiting(platform)
    async with platform.sessions() as session, session.begin():
        target = DeployTarget(
            await session.get_one(Environment, platform.acme.environment(NAME).id),
            await session.get_one(Project, platform.acme.projects["shop"].id),
        )
        newest = await queue_deployment(session, target, _PUSH, Actor("a Git host"), NOW)
        approving = asyncio.create_task(_approve(platform, number))
        await ends_or_waits(platform.sessions, approving)
        await cancel_superseded(session, newest, NOW)
    outcome = await approving
    async with platform.sessions() as session:
        older = (await session.get_one(Deployment, number)).status
        assert (await session.get_one(Deployment, newest.id)).status == "awaiting_approval"
    assert (outcome, older) in {("approved", "queued"), ("ForbiddenTransition", "canceled")}


@pytest.mark.both_databases
async def test_deployment_that_needs_approval_is_refused_while_one_is_active(platform: Platform) -> None:
    await platform.change(NAME, deploys_need_approval=True)
    async with platform.sessions() as session, session.begin():
        active = await add_deployment(session, platform.acme, NAME, NOW, status="running")
        number = active.id
    target = platform.acme.places[NAME]
    with pytest.raises(DeployRunning) as refused:
        async with platform.sessions() as session, session.begin():
            await queue_deployment(session, target, _PUSH, Actor("a Git host"), NOW)
    assert refused.value.members == {"active_deployment_id": number}
