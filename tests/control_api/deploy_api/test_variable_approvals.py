"""A second person approves or rejects a change of variables."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor
from control_domain.projects.find import DeployTarget
from control_domain.tables.audit import AuditEntry
from control_domain.tables.projects import Environment, Project
from control_domain.tables.variables import VariableChange, VariableSet
from control_domain.variables.decisions import decide_variable_change
from pipeline_contracts.deploy_states import ChangeState, ForbiddenTransition
from pipeline_contracts.errors import SecondPersonRequired
from tests.support.deploy_platform import Platform, environment_path

NOW = datetime.now(UTC) + timedelta(seconds=1)
NAME = "shop/production"


def _actor(platform: Platform, who: str) -> Actor:
    return Actor("operator test", person_id=platform.acme.people[who].id)


async def _change(platform: Platform, who: str = "deployer") -> int:
    """Request a change of variables by this person."""
    await platform.change(NAME, variables_need_approval=True)
    path = environment_path(platform.acme.places[NAME], "variables")
    answer = await platform.call("PUT", path, {"variables": "A=2"}, token=platform.acme.token(who))
    number: int = answer.data["change_id"]
    return number


async def _decide(platform: Platform, number: int, to: ChangeState, who: str = "maintainer") -> None:
    async with platform.sessions() as session, session.begin():
        change = await session.get_one(VariableChange, number)
        await decide_variable_change(
            session,
            change,
            await _place(session, platform),
            to,
            platform.acme.people[who],
            _actor(platform, who),
            NOW,
            "because",
        )


async def _place(session: AsyncSession, platform: Platform) -> DeployTarget:
    environment = await session.get_one(Environment, platform.acme.environment(NAME).id)
    return DeployTarget(environment, await session.get_one(Project, environment.project_id))


@pytest.mark.parametrize("to", [ChangeState.APPLIED, ChangeState.REJECTED])
async def test_variable_change_is_decided_once(platform: Platform, to: ChangeState) -> None:
    number = await _change(platform)
    await _decide(platform, number, to)
    people = platform.acme.people
    async with platform.sessions() as session:
        change = await session.get_one(VariableChange, number)
        sets = (await session.execute(select(VariableSet))).scalars().all()
        entry = (await session.execute(select(AuditEntry).order_by(AuditEntry.id.desc()))).scalars().first()
    assert (change.state, change.sealed, change.key_id) == (to, None, None)
    assert (change.decided_by_id, change.decided_at) == (people["maintainer"].id, NOW)
    applied = [(1, 1, people["deployer"].id)] if to is ChangeState.APPLIED else []
    assert [(row.version, row.count, row.set_by_id) for row in sets] == applied
    assert entry is not None
    action = "variables.approve" if to is ChangeState.APPLIED else "variables.reject"
    assert (entry.action, json.loads(entry.details)) == (action, {"change": number, "reason": "because"})
    before = await platform.contents()
    for again in (ChangeState.APPLIED, ChangeState.REJECTED):
        with pytest.raises(ForbiddenTransition):
            await _decide(platform, number, again)
    assert await platform.contents() == before


async def test_requester_cannot_decide_own_variable_change(platform: Platform) -> None:
    number = await _change(platform, "maintainer")
    before = await platform.contents()
    with pytest.raises(SecondPersonRequired, match="another person"):
        await _decide(platform, number, ChangeState.APPLIED)
    assert await platform.contents() == before


async def test_superseded_variable_change_is_not_applied(platform: Platform) -> None:
    older, newer = [await _change(platform) for _ in range(2)]
    with pytest.raises(ForbiddenTransition):
        await _decide(platform, older, ChangeState.APPLIED)
    await _decide(platform, newer, ChangeState.APPLIED)


@pytest.mark.both_databases
async def test_one_of_many_concurrent_change_decisions_succeeds(platform: Platform) -> None:
    number = await _change(platform)
    outcomes = await asyncio.gather(
        *(_decide(platform, number, ChangeState.APPLIED) for _ in range(6)), return_exceptions=True
    )
    assert sum(outcome is None for outcome in outcomes) == 1
    assert all(isinstance(outcome, ForbiddenTransition) for outcome in outcomes if outcome is not None)
    async with platform.sessions() as session:
        assert len((await session.execute(select(VariableSet))).all()) == 1
