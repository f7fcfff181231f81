"""After a rollback pushes are held off until somebody resumes them; on both databases."""

import asyncio

import pytest
from sqlalchemy import update

from control_domain.tables.audit import AuditEntry
from control_domain.tables.deployments import LiveRelease
from control_domain.tables.runtime import EnvironmentLease
from tests.support import carried_out
from tests.support.operated import NOW, Operated


async def _bring_live(operated: Operated, number: int) -> int:
    async with operated.engines.sessions() as session, session.begin():
        await carried_out.begin(session, number, NOW)
        await carried_out.bring_live(session, number, NOW)
    return number


async def _roll_back(operated: Operated) -> int:
    """Two releases, and the first one live again; gives the deployment that has brought it."""
    first = await _bring_live(operated, await operated.queue())
    await _bring_live(operated, await operated.queue())
    return await _bring_live(operated, await operated.queue(trigger="rollback", rolled_back_to_id=first))


async def _is_held(operated: Operated) -> bool:
    held: bool = (await operated.act("environments/show", id="production"))["held"]
    return held


async def test_a_rollback_holds_pushes_until_they_are_resumed(operated: Operated) -> None:
    assert not await _is_held(operated)
    number = await _roll_back(operated)
    assert await _is_held(operated)
    told = await operated.act("environments/resume", id="production")
    assert (told["slug"], told["held"], told["resumed"]) == ("production", False, True)
    assert not await _is_held(operated)
    subject = f"environment {operated.environment.public_id}"
    entry = ("environment.resume", subject, None, "operator kim", {"deployment": number})
    assert (await operated.audited())[0] == entry
    # What is live stays so.
    async with operated.engines.sessions() as session:
        live = await session.get_one(LiveRelease, operated.environment.id)
    assert (live.deployment_id, live.held) == (number, False)


async def test_resuming_without_a_rollback_changes_nothing(operated: Operated) -> None:
    for _ in range(2):
        before = await operated.audited()
        told = await operated.act("environments/resume", id="production")
        assert (told["held"], told["resumed"]) == (False, False)
        assert await operated.audited() == before
        await _bring_live(operated, await operated.queue())


async def test_a_deploy_by_hand_resumes_pushes(operated: Operated) -> None:
    await _roll_back(operated)
    await _bring_live(operated, await operated.queue())
    assert not await _is_held(operated)


async def test_another_environment_stays_held(operated: Operated) -> None:
    await _roll_back(operated)
    await operated.act("environments/create", name="Staging", type="staging")
    assert not (await operated.act("environments/resume", id="staging"))["resumed"]
    assert await _is_held(operated)
    line = await operated.refused("environments/resume", id="nowhere")
    assert line == "There is no environment nowhere; `pharos environment list` shows all."


@pytest.mark.both_databases
async def test_of_ten_concurrent_resumes_one_succeeds(operated: Operated) -> None:
    await _roll_back(operated)
    async with operated.engines.sessions() as session, session.begin():
        await carried_out.hold_lease(session, operated.environment.id, NOW)
    told = await asyncio.gather(*(operated.act("environments/resume", id="production") for _ in range(10)))
    assert len([one for one in told if one["resumed"]]) == 1
    assert await operated.count(AuditEntry, AuditEntry.action == "environment.resume") == 1


@pytest.mark.both_databases
async def test_resuming_waits_for_a_deployer_that_switches(operated: Operated) -> None:
    """It is about to roll back: whoever resumes meanwhile ends that, and is not told that nothing was held."""
    await _bring_live(operated, await operated.queue())
    async with operated.engines.sessions() as session, session.begin():
        await carried_out.hold_lease(session, operated.environment.id, NOW)
    async with operated.engines.sessions() as session, session.begin():
        # As a deployer begins each of its transactions.
        await session.execute(update(EnvironmentLease).values(doing="switch"))
        live = await session.get_one(LiveRelease, operated.environment.id)
        live.held = True
        await session.flush()
        resuming = asyncio.create_task(operated.act("environments/resume", id="production"))
        done, _ = await asyncio.wait({resuming}, timeout=0.3)
        assert not done
    assert (await resuming)["resumed"]
    assert not await _is_held(operated)
