"""Environments that a configuration removes, on both databases."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import update

from control_domain.configurations.steps.step_context import Publications
from control_domain.environments.operations import lock_environment_row
from control_domain.tables.projects import Environment
from control_domain.tables.runtime import EnvironmentLease
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.heartbeat_names import digest_heartbeat_name
from tests.support.changed_project import PRODUCTION, ChangedProject
from tests.support.deployment_rows import lease_environment
from tests.support.managed_project import NOW


async def test_an_environment_is_removed_with_its_keys_and_monitors(configured: ChangedProject) -> None:
    objects = configured.managed.objects
    keys = [
        (await objects.add_ingest_key()).secret,
        *(await objects.add_heartbeat()).secrets,
        *(await objects.add_queue()).secrets,
    ]
    await configured.plan_and_apply(
        PRODUCTION, {"locked": True, "replicas": 2, "variables.A": configured.secret("one")}
    )
    action = await configured.plan_one(PRODUCTION)
    result = await configured.apply_step(action)
    job = digest_heartbeat_name(configured.managed.environment.public_id, "backup")
    assert sorted(result.revoke) == sorted([*map(digest_credential, keys), job])
    assert result.sites == ()
    assert await configured.fields(PRODUCTION) is None
    name, _ = (await configured.audited())[-1]
    assert name == "environment.remove"
    # A resource that is already removed is in the desired state.
    assert await configured.repeated(action) == Publications()


async def test_an_environment_with_an_active_deployment_is_not_removed(configured: ChangedProject) -> None:
    number = await configured.managed.queue()
    action = await configured.plan_one(PRODUCTION)
    assert await configured.refused(action) == (
        f"environments.production cannot be removed: Deployment {number} of this environment is queued: wait until it "
        "is finished, or cancel it."
    )
    await configured.managed.cancel(number)
    await configured.apply_step(action)
    assert await configured.fields(PRODUCTION) is None


@pytest.mark.parametrize(
    ("changed", "field"),
    [({"replicas": 2}, "replicas"), ({"branch": "main"}, "branch"), ({"locked": True}, "locked")],
)
async def test_a_resource_changed_since_the_plan_is_not_removed(
    configured: ChangedProject, changed: dict[str, Any], field: str
) -> None:
    action = await configured.plan_one(PRODUCTION)
    await configured.plan_and_apply(PRODUCTION, changed)
    assert await configured.refused(action) == (
        f"environments.production was changed meanwhile: {field}; make a new review."
    )


async def test_an_environment_with_a_new_variable_is_not_removed(configured: ChangedProject) -> None:
    action = await configured.plan_one(PRODUCTION)
    await configured.managed.set_variables("A=1")
    assert "variables.A" in await configured.refused(action)


async def test_an_environment_whose_branch_was_cleared_is_removed(configured: ChangedProject) -> None:
    await configured.plan_and_apply(PRODUCTION, {"branch": "main"})
    action = await configured.plan_one(PRODUCTION)
    await configured.plan_and_apply(PRODUCTION, {"branch": None})
    await configured.apply_step(action)
    assert await configured.fields(PRODUCTION) is None


@pytest.mark.both_databases
async def test_removing_waits_for_the_deployer(configured: ChangedProject) -> None:
    """The deployer locks its lease before the environment, and so does the step, so the two cannot deadlock."""
    number = configured.managed.environment.id
    sessions = configured.managed.engines.sessions
    async with sessions() as session, session.begin():
        await lease_environment(session, number, NOW)
    action = await configured.plan_one(PRODUCTION)
    async with sessions() as session, session.begin():
        await session.execute(update(EnvironmentLease).values(fence=2))
        removing = asyncio.create_task(configured.apply_step(action))
        await asyncio.sleep(0.2)
        assert not removing.done()
        await lock_environment_row(session, await session.get_one(Environment, number))
    await removing
    assert await configured.fields(PRODUCTION) is None
