"""Concurrent locks and unlocks of an environment, on both databases."""

import asyncio

import pytest
from sqlalchemy import select

from control_domain.tables.projects import EnvironmentLock
from pipeline_contracts.errors import Conflict, EnvironmentLocked, NotFound
from tests.support.managed_project import ManagedProject


async def _read_actions(managed: ManagedProject) -> list[str]:
    return [entry[0] for entry in await managed.read_audit_log()]


@pytest.mark.both_databases
async def test_of_ten_concurrent_locks_one_succeeds(managed: ManagedProject) -> None:
    outcomes = await asyncio.gather(
        *(managed.lock(f"reason {number}") for number in range(10)), return_exceptions=True
    )
    refused = [each for each in outcomes if isinstance(each, Conflict)]
    assert len(refused) == 9 and outcomes.count(None) == 1
    async with managed.engines.sessions() as session:
        reason = (await session.execute(select(EnvironmentLock.reason))).scalar_one()
    held = f"The environment is locked already, by owner@acme.example since 2026-11-18 12:00 UTC: {reason}"
    assert {each.detail for each in refused} == {held}
    assert await _read_actions(managed) == ["environment.lock"]


@pytest.mark.both_databases
async def test_of_ten_concurrent_unlocks_one_succeeds(managed: ManagedProject) -> None:
    await managed.lock("sale", by="deployer")
    outcomes = await asyncio.gather(*(managed.unlock() for _ in range(10)), return_exceptions=True)
    assert len([each for each in outcomes if isinstance(each, NotFound)]) == 9
    unlocked, _ = await managed.read_audit_log()
    assert (unlocked[0], unlocked[4]) == (
        "environment.unlock",
        {"reason": "sale", "by": "deployer@acme.example"},
    )
    assert await _read_actions(managed) == ["environment.unlock", "environment.lock"]


async def test_a_locked_environment_takes_no_deployments(managed: ManagedProject) -> None:
    await managed.lock("sale")
    with pytest.raises(EnvironmentLocked, match="is locked by Owner: sale"):
        await managed.queue()
    await managed.unlock()
    await managed.queue()
