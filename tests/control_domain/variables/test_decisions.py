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
from control_domain.variables.pending import find_pending_changes
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
    """The approver has read the names already, so nothing has to be opened."""
    await managed.change_settings(variables_need_approval=True)
    change = await managed.propose_variables("A=1")
    managed.engines = replace(managed.engines, sealing_keys=SealingKeys([b"x" * 32]))
    await managed.decide_on_variables(change)
    assert await managed.count(VariableSet) == 1


async def test_update_has_a_state_that_earlier_versions_do_not_apply(
    managed: ManagedProject,
) -> None:
    """A control plane of the earlier version may still run during an upgrade. It knows only `ChangeState`, and no
    kinds."""
    await managed.protect_variables("A")
    await managed.change_settings(variables_need_approval=True)
    replacement = await managed.propose_variables("A=1")
    others = [await managed.update_variables({"B": "2"}), await managed.unprotect_variable("A")]
    async with managed.engines.sessions() as session:
        rows = {row.id: row for row in await find_pending_changes(session, managed.environment)}
    assert (list(rows), rows[replacement].state) == ([replacement, *others], "pending")
    for other in others:
        assert other is not None and rows[other].current_state is ChangeState.PENDING
        with pytest.raises(ValueError, match="'pending-part' is not a valid ChangeState"):
            ChangeState(rows[other].state)
    await managed.decide_on_variables(replacement)
    assert await managed.count(VariableSet) == 1


async def _is_not_live(managed: ManagedProject) -> bool:
    async with managed.engines.sessions() as session:
        document = await read_variables(session, managed.engines.sealing_keys, managed.target)
    return document["not_live"]


async def test_variables_are_not_live_until_a_release_has_them(managed: ManagedProject) -> None:
    assert not await _is_not_live(managed)
    await managed.set_variables("A=1")
    # No release with other variables runs.
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
