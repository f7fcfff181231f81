"""A second person decides on changes of variables, on both databases."""

import asyncio
from dataclasses import replace

import pytest
from sqlalchemy import update

from control_domain.sealing import SealingKeys
from control_domain.tables.audit import AuditEntry
from control_domain.tables.deployments import Release
from control_domain.tables.variables import VariableChange, VariableSet
from control_domain.variables.describe import read_variables
from control_domain.variables.versions import find_newest_variables
from pipeline_contracts.deploy_states import ChangeState, ForbiddenTransition
from tests.support.deployment_rows import begin_deployment, complete_deployment
from tests.support.managed_project import NOW, ManagedProject


@pytest.mark.both_databases
async def test_of_many_concurrent_decisions_one_is_accepted(managed: ManagedProject) -> None:
    await managed.change_settings(variables_need_approval=True)
    change = await managed.propose_variables("A=1")
    outcomes = await asyncio.gather(
        *(managed.decide_on_variables(change) for _ in range(4)),
        *(managed.decide_on_variables(change, ChangeState.REJECTED) for _ in range(4)),
        return_exceptions=True,
    )
    assert outcomes.count(None) == 1
    assert len([each for each in outcomes if isinstance(each, ForbiddenTransition)]) == 7
    async with managed.engines.sessions() as session:
        row = await session.get_one(VariableChange, change)
    assert (row.sealed, row.key_id) == (None, None)
    assert await managed.count(VariableSet) == (row.state == ChangeState.APPLIED)
    decided = AuditEntry.action.in_(("variables.approve", "variables.reject"))
    assert await managed.count(AuditEntry, decided) == 1


async def test_a_replacement_is_approved_without_its_key(managed: ManagedProject) -> None:
    """The approver has read the names elsewhere; nothing has to be opened."""
    await managed.change_settings(variables_need_approval=True)
    change = await managed.propose_variables("A=1")
    managed.engines = replace(managed.engines, sealing_keys=SealingKeys([b"x" * 32]))
    await managed.decide_on_variables(change)
    assert await managed.count(VariableSet) == 1


async def _is_not_live(managed: ManagedProject) -> bool:
    async with managed.engines.sessions() as session:
        document = await read_variables(session, managed.engines.sealing_keys, managed.target)
    return document["not_live"]


async def test_variables_are_not_live_until_a_release_has_them(managed: ManagedProject) -> None:
    assert not await _is_not_live(managed)
    await managed.set_variables("A=1")
    # Nothing runs that has others.
    assert not await _is_not_live(managed)
    number = await managed.queue()
    async with managed.engines.sessions() as session, session.begin():
        await begin_deployment(session, number, NOW)
        release = await complete_deployment(session, number, NOW)
        newest = await find_newest_variables(session, managed.environment)
        assert newest is not None
        await session.execute(update(Release).where(Release.id == release.id).values(variables_id=newest.id))
    assert not await _is_not_live(managed)
    await managed.set_variables("A=2")
    assert await _is_not_live(managed)
