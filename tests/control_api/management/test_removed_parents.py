"""Additions to an environment or a project that is being removed are refused, without a database error."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select

from control_domain.audit import Actor
from control_domain.projects.find import DeployTarget
from control_domain.removals.remove_environment import remove_environment
from control_domain.removals.remove_project import remove_project
from control_domain.tables.accounts import Account
from control_domain.tables.projects import Environment, Project
from tests.control_api.management.conftest import Api
from tests.support.lock_waits import ends_or_waits

_WORKFLOW = "version: 1\nprocesses:\n  web:\n    command: python app.py\n"
_TO_ENVIRONMENT: dict[str, dict[str, Any]] = {
    "POST ingest-keys": {},
    "POST ping-keys": {},
    "POST heartbeats": {"name": "backup", "period_seconds": 60},
    "POST queues": {"name": "mail"},
    "PUT variables": {"variables": "A=1"},
    "PATCH variables": {"set": {"A": "1"}},
    "PUT variables/A/protection": {},
    "PUT lock": {"reason": "no"},
    "POST deploy": {},
    "POST thresholds": {"name": "mail", "kind": "queue.size", "target": "mail", "threshold": 1},
}
_TO_PROJECT: dict[str, dict[str, Any]] = {
    "POST sites": {"domains": ["docs.example"]},
    "POST repository": {"url": "https://git.example/docs"},
    "POST environments": {"name": "Staging", "type": "staging"},
    "PUT workflow": {"workflow": _WORKFLOW},
    "PUT members/{viewer}": {"role": "viewer"},
}


@pytest.mark.both_databases
@pytest.mark.parametrize("what", _TO_ENVIRONMENT)
async def test_additions_to_a_removed_environment(api: Api, what: str) -> None:
    found = api.platform.acme.environment("shop/development")
    method, path = what.split()
    async with api.platform.sessions() as session, session.begin():
        environment = await session.get_one(Environment, found.id)
        target = DeployTarget(environment, await session.get_one(Project, environment.project_id))
        await remove_environment(session, target, Actor("test"), datetime.now(UTC))
        path = f"/v1/environments/{found.public_id}/{path}"
        adding = asyncio.create_task(api.call(method, path, _TO_ENVIRONMENT[what]))
        await ends_or_waits(api.platform.sessions, adding)
    assert (await adding).problem == (404, "not-found")


@pytest.mark.both_databases
@pytest.mark.parametrize("what", _TO_PROJECT)
async def test_additions_to_a_removed_project(api: Api, what: str) -> None:
    made = await api.call("POST", "/v1/projects", {"name": "Docs"})
    async with api.platform.sessions() as session, session.begin():
        project = (await session.execute(select(Project).where(Project.slug == "docs"))).scalar_one()
        account = await session.get_one(Account, project.account_id)
        await remove_project(session, account, project, Actor("test"), datetime.now(UTC))
        await session.flush()
        method, path = what.format(viewer=api.platform.acme.people["viewer"].public_id).split()
        path = f"/v1/projects/{made.data['id']}/{path}"
        adding = asyncio.create_task(api.call(method, path, _TO_PROJECT[what]))
        await ends_or_waits(api.platform.sessions, adding)
    assert (await adding).problem == (404, "not-found")
