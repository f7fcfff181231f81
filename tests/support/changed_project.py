"""A project that tests change by single steps, without a worker."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor
from control_domain.configurations.addresses import Address, write_address
from control_domain.configurations.plan import Action, make_plan
from control_domain.configurations.project_state import read_project_state
from control_domain.configurations.resources import ConfigurationDocument, DesiredResource, Secret, Value
from control_domain.configurations.sealed_actions import open_actions, seal_actions
from control_domain.configurations.steps.apply_step import apply_step
from control_domain.configurations.steps.step_context import Publications, StepFailed
from control_domain.database.engine import open_engine, open_sessions
from control_domain.environments.gates import REMOVED, Gate, find_lowered
from control_domain.environments.windows import DeployWindow
from control_domain.sealing import SealingKeys
from control_domain.tables.projects import Environment, Project
from tests.support.accounts import migrated
from tests.support.databases import copied_database, read_all_rows
from tests.support.managed_project import NOW, ManagedProject, make_managed_project

PRODUCTION: Address = ("environments", "production")
"""The environment that the project has at first."""
STAGING: Address = ("environments", "staging")
SOURCE = "198.51.100.7"
"""The address that sends the steps. People send their changes from another address."""


def all_gates(action: Action) -> list[str]:
    """Return all gates that the action could lower with approval."""
    window = DeployWindow(("mon",), time(9), time(16), "UTC")
    every = find_lowered(Gate(True, True, window), Gate(False, False, None))
    return [f"{one} of {write_address(action.address)}" for one in (*every, REMOVED)]


@dataclass(slots=True)
class ChangedProject:
    """The project "shop", its operator, and the actor of the steps."""

    managed: ManagedProject

    @property
    def keys(self) -> SealingKeys:
        return self.managed.engines.sealing_keys

    @property
    def project(self) -> Project:
        return self.managed.project

    def others(self) -> Actor:
        """Return another actor."""
        return Actor("operator kim")

    def secret(self, value: str) -> Secret:
        """Return a variable's value as it is in documents."""
        return Secret(self.keys.digest(value, self.project.public_id), value)

    async def fields(self, address: Address) -> Mapping[str, Value] | None:
        """Return the current fields of the resource; None if it does not exist."""
        async with self.managed.engines.sessions() as session:
            project = await session.get_one(Project, self.project.id)
            present = (await read_project_state(session, self.keys, project)).resources.get(address)
        return None if present is None else present.fields

    async def plan(
        self,
        wanted: Mapping[Address, Mapping[str, Value]] | None = None,
        deleted: Iterable[Address] = (),
        bound: Iterable[str] = (),
    ) -> Sequence[Action]:
        """Plan a document with these resources; `bound`: fields that contain a binding's value."""
        resources = [
            DesiredResource(address, fields, 1, frozenset(bound))
            for address, fields in (wanted or {}).items()
        ]
        document = ConfigurationDocument(resources, dict.fromkeys(deleted, 1))
        async with self.managed.engines.sessions() as session:
            project = await session.get_one(Project, self.project.id)
            return make_plan(document, await read_project_state(session, self.keys, project)).actions

    async def plan_one(
        self, address: Address, fields: Mapping[str, Value] | None = None, bound: Iterable[str] = ()
    ) -> Action:
        """Plan the one action that sets these fields; None deletes the resource."""
        if fields is None:
            (action,) = await self.plan(deleted=[address])
        else:
            (action,) = await self.plan({address: fields}, bound=bound)
        return action

    async def apply_step(
        self, action: Action, keys: SealingKeys | None = None, author: str | None = None
    ) -> Publications:
        """Seal, open and apply the action in one transaction, as a worker does for the person `deployer`. All gates are
        approved. `author` created the review."""
        of = self.project.public_id
        (opened,) = open_actions(self.keys, seal_actions(self.keys, [action], of), of)
        actor = Actor(SOURCE, self.managed.people["deployer"].id)
        async with self.managed.engines.sessions() as session, session.begin():
            project = await session.get_one(Project, self.project.id)
            agreed = all_gates(action)
            author_id = None if author is None else self.managed.people[author].id
            return await apply_step(
                session, keys or self.keys, project, opened, actor, NOW, agreed, author_id
            )

    async def plan_and_apply(
        self, address: Address, fields: Mapping[str, Value] | None = None, bound: Iterable[str] = ()
    ) -> Publications:
        """Plan this one action and apply it."""
        return await self.apply_step(await self.plan_one(address, fields, bound))

    async def refused(self, action: Action, keys: SealingKeys | None = None) -> str:
        """Return the error of the action, one line; check that nothing was written."""
        before = await self.contents()
        with pytest.raises(StepFailed) as caught:
            await self.apply_step(action, keys)
        assert await self.contents() == before
        (line,) = str(caught.value).splitlines()
        assert line.endswith(".")
        return line

    async def repeated(self, action: Action) -> Publications:
        """Apply the action again; check that nothing was written."""
        before = await self.contents()
        result = await self.apply_step(action)
        assert await self.contents() == before
        return result

    async def contents(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return every row of every table."""
        return await read_all_rows(self.managed.engines.sessions.kw["bind"])

    async def audited(self) -> list[tuple[str, Any]]:
        """Return action and details of the audit entries of steps, in order."""
        entries = reversed(await self.managed.read_audit_log())
        return [(action, details) for action, _, _, source, details in entries if source == SOURCE]

    async def audit_text(self) -> str:
        """Return the whole audit log as text."""
        return json.dumps(await self.managed.read_audit_log(), ensure_ascii=False)

    async def environment(self, slug: str = "production") -> Environment:
        query = select(Environment).where(Environment.project_id == self.project.id, Environment.slug == slug)
        async with self.managed.engines.sessions() as session:
            return (await session.execute(query)).scalar_one()

    @contextlib.asynccontextmanager
    async def while_uncommitted(self, action: Action) -> AsyncIterator[AsyncSession]:
        """Open another transaction; check that the action waits for it and then fails."""
        async with self.managed.engines.sessions() as session:
            async with session.begin():
                yield session
                await session.flush()
                applying = asyncio.create_task(self.apply_step(action))
                await asyncio.sleep(0.2)
                assert not applying.done()
            with pytest.raises(StepFailed, match="make a new review"):
                await applying


@dataclass(frozen=True, slots=True)
class PreparedProject:
    """A database with the project, to be copied by tests."""

    url: str
    managed: ManagedProject


async def prepare_project(url: str) -> PreparedProject:
    """Migrate and fill an empty database."""
    async with migrated(url) as engine:
        return PreparedProject(url, await make_managed_project(open_sessions(engine)))


@contextlib.asynccontextmanager
async def open_project(prepared: PreparedProject, folder: Path) -> AsyncIterator[ChangedProject]:
    """Open the project on a temporary copy of the database; SQLite files are created in `folder`."""
    async with copied_database(prepared.url, folder) as url:
        engine = open_engine(url)
        try:
            yield ChangedProject(prepared.managed.on(open_sessions(engine)))
        finally:
            await engine.dispose()
