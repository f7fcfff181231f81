"""What is added to an environment or a project while it is removed is refused, and no fault of the database."""

import asyncio
import re
from typing import Any

import pytest
from sqlalchemy import select, text

from control_domain.audit import Actor
from control_domain.database.errors import BrokenReference
from control_domain.projects.resolve import resolve_target
from control_domain.refusals import Refused
from control_domain.removals.remove_environment import remove_environment
from control_domain.removals.remove_project import remove_project
from control_domain.tables.accounts import Account
from control_domain.tables.projects import Environment, IngestKey, Project
from tests.support.managed_project import NOW, ManagedProject

_TO_ENVIRONMENT: list[tuple[str, dict[str, Any]]] = [
    ("variables/set", {"text": "A=1"}),
    ("variables/protect", {"names": ["A"]}),
    ("environments/lock", {"id": "production", "reason": "no"}),
    ("deployments/deploy", {"id": "production"}),
]
_TO_PROJECT: list[tuple[str, dict[str, Any]]] = [
    ("environments/create", {"name": "Staging", "type": "staging"}),
    ("projects/grant", {"email": "viewer@acme.example", "role": "viewer"}),
]


_SAYS_SO = re.compile("was removed|no such|[Tt]here is no|is removed")


async def _waits(managed: ManagedProject, task: "asyncio.Task[Any]") -> None:
    """Wait until the task has ended or waits for a lock."""
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    async with asyncio.timeout(60):
        while not task.done():
            async with managed.engines.sessions() as session:
                if session.get_bind().dialect.name == "sqlite":
                    # What it has read, it has read by then; or it is refused anyway.
                    return await asyncio.sleep(0.05)
                if (await session.execute(waiting)).scalar_one():
                    return
            await asyncio.sleep(0.01)


async def _check_refused(task: "asyncio.Task[Any]", name: str) -> None:
    with pytest.raises(Refused) as refused:
        await task
    assert _SAYS_SO.search(str(refused.value)), (name, str(refused.value))


@pytest.mark.both_databases
@pytest.mark.parametrize(("name", "wanted"), _TO_ENVIRONMENT, ids=[name for name, _ in _TO_ENVIRONMENT])
async def test_additions_to_a_removed_environment_fail(
    managed: ManagedProject, name: str, wanted: dict[str, Any]
) -> None:
    async with managed.engines.sessions() as session, session.begin():
        await remove_environment(session, await resolve_target(session, "production"), Actor("test"), NOW)
        adding = asyncio.create_task(managed.act(name, **{"environment_id": "production", **wanted}))
        await _waits(managed, adding)
    await _check_refused(adding, name)
    assert await managed.count(Environment) == 0


@pytest.mark.both_databases
@pytest.mark.parametrize(("name", "wanted"), _TO_PROJECT, ids=[name for name, _ in _TO_PROJECT])
async def test_additions_to_a_removed_project_fail(
    managed: ManagedProject, name: str, wanted: dict[str, Any]
) -> None:
    made = await managed.act("projects/create", name="Blog", account_id=str(managed.account.public_id))
    async with managed.engines.sessions() as session, session.begin():
        project = (await session.execute(select(Project).where(Project.slug == "blog"))).scalar_one()
        account = await session.get_one(Account, project.account_id)
        await remove_project(session, account, project, Actor("test"), NOW)
        await session.flush()
        adding = asyncio.create_task(
            managed.act(name, **{"project_id": made["id"], "id": made["id"], **wanted})
        )
        await _waits(managed, adding)
    await _check_refused(adding, name)
    assert await managed.count(Project, Project.slug == "blog") == 0


@pytest.mark.both_databases
async def test_the_error_contains_no_values(managed: ManagedProject) -> None:
    async with managed.engines.sessions() as session:
        session.add(IngestKey(environment_id=10_000, digest=b"secret", created_at=NOW))
        with pytest.raises(BrokenReference) as broken:
            await session.flush()
    assert "secret" not in str(broken.value)
    assert "INSERT" not in str(broken.value)
