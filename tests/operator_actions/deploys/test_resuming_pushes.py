"""After a rollback pushes are held off until somebody resumes them; on both databases."""

import asyncio

import pytest
from sqlalchemy import update

from control_domain.tables.audit import AuditEntry
from control_domain.tables.deployments import LiveRelease
from control_domain.tables.runtime import EnvironmentLease
from tests.support import deployment_rows
from tests.support.managed_project import NOW, ManagedProject


async def _bring_live(managed: ManagedProject, number: int) -> int:
    async with managed.engines.sessions() as session, session.begin():
        await deployment_rows.begin_deployment(session, number, NOW)
        await deployment_rows.complete_deployment(session, number, NOW)
    return number


async def _roll_back(managed: ManagedProject) -> int:
    """Two releases, and the first one live again; gives the deployment that has brought it."""
    first = await _bring_live(managed, await managed.queue())
    await _bring_live(managed, await managed.queue())
    return await _bring_live(managed, await managed.queue(trigger="rollback", rolled_back_to_id=first))


async def _is_held(managed: ManagedProject) -> bool:
    held: bool = (await managed.act("environments/show", id="production"))["held"]
    return held


async def test_a_rollback_holds_pushes_until_they_are_resumed(managed: ManagedProject) -> None:
    assert not await _is_held(managed)
    number = await _roll_back(managed)
    assert await _is_held(managed)
    told = await managed.act("environments/resume", id="production")
    assert (told["slug"], told["held"], told["resumed"]) == ("production", False, True)
    assert not await _is_held(managed)
    subject = f"environment {managed.environment.public_id}"
    entry = ("environment.resume", subject, None, "operator kim", {"deployment": number})
    assert (await managed.read_audit_log())[0] == entry
    # What is live stays so.
    async with managed.engines.sessions() as session:
        live = await session.get_one(LiveRelease, managed.environment.id)
    assert (live.deployment_id, live.held) == (number, False)


async def test_resuming_without_a_rollback_changes_nothing(managed: ManagedProject) -> None:
    for _ in range(2):
        before = await managed.read_audit_log()
        told = await managed.act("environments/resume", id="production")
        assert (told["held"], told["resumed"]) == (False, False)
        assert await managed.read_audit_log() == before
        await _bring_live(managed, await managed.queue())


async def test_a_deploy_by_hand_resumes_pushes(managed: ManagedProject) -> None:
    await _roll_back(managed)
    await _bring_live(managed, await managed.queue())
    assert not await _is_held(managed)


async def test_another_environment_stays_held(managed: ManagedProject) -> None:
    await _roll_back(managed)
    await managed.act("environments/create", name="Staging", type="staging")
    assert not (await managed.act("environments/resume", id="staging"))["resumed"]
    assert await _is_held(managed)
    line = await managed.expect_refusal("environments/resume", id="nowhere")
    assert line == "There is no environment nowhere; `pharos environment list` shows all."


@pytest.mark.both_databases
async def test_of_ten_concurrent_resumes_one_succeeds(managed: ManagedProject) -> None:
    await _roll_back(managed)
    async with managed.engines.sessions() as session, session.begin():
        await deployment_rows.lease_environment(session, managed.environment.id, NOW)
    told = await asyncio.gather(*(managed.act("environments/resume", id="production") for _ in range(10)))
    assert len([one for one in told if one["resumed"]]) == 1
    assert await managed.count(AuditEntry, AuditEntry.action == "environment.resume") == 1


@pytest.mark.both_databases
async def test_resuming_waits_for_a_deployer_that_switches(managed: ManagedProject) -> None:
    """It is about to roll back: whoever resumes meanwhile ends that, and is not told that nothing was held."""
    await _bring_live(managed, await managed.queue())
    async with managed.engines.sessions() as session, session.begin():
        await deployment_rows.lease_environment(session, managed.environment.id, NOW)
    async with managed.engines.sessions() as session, session.begin():
        # As a deployer begins each of its transactions.
        await session.execute(update(EnvironmentLease).values(doing="switch"))
        live = await session.get_one(LiveRelease, managed.environment.id)
        live.held = True
        await session.flush()
        resuming = asyncio.create_task(managed.act("environments/resume", id="production"))
        done, _ = await asyncio.wait({resuming}, timeout=0.3)
        assert not done
    assert (await resuming)["resumed"]
    assert not await _is_held(managed)
