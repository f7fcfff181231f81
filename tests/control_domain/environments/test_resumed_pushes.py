"""After a rollback pushes deploy nothing until a person resumes them, on both databases."""

import asyncio

import pytest
from sqlalchemy import select, update

from control_domain.tables.audit import AuditEntry
from control_domain.tables.deployments import LiveRelease
from control_domain.tables.runtime import EnvironmentLease
from tests.support import deployment_rows
from tests.support.managed_project import NOW, SOURCE, ManagedProject


async def _make_live(managed: ManagedProject, number: int) -> int:
    async with managed.engines.sessions() as session, session.begin():
        await deployment_rows.begin_deployment(session, number, NOW)
        await deployment_rows.complete_deployment(session, number, NOW)
    return number


async def _roll_back(managed: ManagedProject) -> int:
    """Make two releases live, and the first one again; return the deployment of the rollback."""
    first = await _make_live(managed, await managed.queue())
    await _make_live(managed, await managed.queue())
    return await _make_live(managed, await managed.queue(trigger="rollback", rolled_back_to_id=first))


async def _is_held(managed: ManagedProject) -> bool:
    query = select(LiveRelease.held).where(LiveRelease.environment_id == managed.environment.id)
    async with managed.engines.sessions() as session:
        return bool((await session.execute(query)).scalar())


async def test_a_rollback_holds_pushes_back_until_they_are_resumed(managed: ManagedProject) -> None:
    number = await _roll_back(managed)
    assert await _is_held(managed)
    assert await managed.resume_pushes()
    assert not await _is_held(managed)
    subject = f"environment {managed.environment.public_id}"
    entry = ("environment.resume", subject, "owner@acme.example", SOURCE, {"deployment": number})
    assert (await managed.read_audit_log())[0] == entry
    async with managed.engines.sessions() as session:
        live = await session.get_one(LiveRelease, managed.environment.id)
    assert live.deployment_id == number


async def test_resuming_without_a_rollback_changes_nothing(managed: ManagedProject) -> None:
    for _ in range(2):
        before = await managed.read_audit_log()
        assert not await managed.resume_pushes()
        assert await managed.read_audit_log() == before
        await _make_live(managed, await managed.queue())


async def test_a_deploy_by_hand_resumes_pushes(managed: ManagedProject) -> None:
    await _roll_back(managed)
    await _make_live(managed, await managed.queue())
    assert not await _is_held(managed)


async def test_another_environment_stays_held(managed: ManagedProject) -> None:
    await _roll_back(managed)
    await managed.add_environment("Staging")
    assert not await managed.resume_pushes("staging")
    assert await _is_held(managed)


@pytest.mark.both_databases
async def test_of_ten_concurrent_resumes_one_succeeds(managed: ManagedProject) -> None:
    await _roll_back(managed)
    async with managed.engines.sessions() as session, session.begin():
        await deployment_rows.lease_environment(session, managed.environment.id, NOW)
    outcomes = await asyncio.gather(*(managed.resume_pushes() for _ in range(10)))
    assert outcomes.count(True) == 1
    assert await managed.count(AuditEntry, AuditEntry.action == "environment.resume") == 1


@pytest.mark.both_databases
async def test_resuming_waits_for_a_deployer_that_switches(managed: ManagedProject) -> None:
    """The deployer is about to roll back. A person who resumes pushes meanwhile ends the hold."""
    await _make_live(managed, await managed.queue())
    async with managed.engines.sessions() as session, session.begin():
        await deployment_rows.lease_environment(session, managed.environment.id, NOW)
    async with managed.engines.sessions() as session, session.begin():
        # Begin the transaction as a deployer does.
        await session.execute(update(EnvironmentLease).values(doing="switch"))
        live = await session.get_one(LiveRelease, managed.environment.id)
        live.held = True
        await session.flush()
        resuming = asyncio.create_task(managed.resume_pushes())
        done, _ = await asyncio.wait({resuming}, timeout=0.3)
        assert not done
    assert await resuming
    assert not await _is_held(managed)
