"""A project with people of every role and a repository, which tests change as people do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import create_account, create_person
from control_domain.audit import Actor, list_newest_entries
from control_domain.database.engine import Sessions
from control_domain.deployments.decisions import approve_deployment, cancel_deployment, reject_deployment
from control_domain.deployments.find import FoundDeployment, get_environment
from control_domain.deployments.inputs import read_deployment_inputs
from control_domain.deployments.queue_deployment import DeploymentRequest, queue_deployment
from control_domain.environments.change import (
    NewEnvironment,
    SettingChanges,
    add_environment,
    change_environment,
    remove_lock,
    set_lock,
)
from control_domain.environments.operations import lock_environment_row, resume_pushes, scale_environment
from control_domain.previews.requests import open_requested_preview
from control_domain.projects.find import DeployTarget
from control_domain.removals.disconnect_repository import disconnect_and_cancel
from control_domain.removals.remove_environment import RemovedEnvironment, remove_ungated_environment
from control_domain.repositories.operations import connect_repository, lock_repository
from control_domain.sealing import SealingKeys
from control_domain.tables.accounts import Account, Person
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment, Project, ProjectRole
from control_domain.tables.repositories import Repository
from control_domain.tables.variables import VariableChange
from control_domain.variables.decisions import decide_variable_change
from control_domain.variables.dotenv import read_dotenv
from control_domain.variables.operations import replace_variables, update_variables
from control_domain.variables.protection import protect_variables, request_unprotection
from control_domain.workflows.operations import set_workflow
from pipeline_contracts.deploy_states import ChangeState
from pipeline_contracts.rate_limits import RateLimit
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.key_directory.interface import KeyDirectory
from tests.support.accounts import make_acme
from tests.support.added_objects import ObjectAdder

# A Wednesday.
NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
REVISION = "0123456789abcdef0123456789abcdef01234567"
SOURCE = "203.0.113.7"
"""The address from which the people send their requests."""
PEOPLE = {
    "owner": None,
    "maintainer": "maintainer",
    "deployer": "deployer",
    "viewer": "viewer",
    "stranger": None,
}
"""Each person's role in the project. `owner` owns the account; the others are members of it."""


@dataclass(frozen=True, slots=True)
class Engines:
    """The database of the project, and the keys that seal its variables."""

    sessions: Sessions
    directory: KeyDirectory
    sealing_keys: SealingKeys


@dataclass(slots=True)
class ManagedProject:
    """The engines, and the rows of the project."""

    engines: Engines
    account: Account
    target: DeployTarget
    repository: Repository
    people: dict[str, Person]

    @property
    def project(self) -> Project:
        return self.target.project

    @property
    def environment(self) -> Environment:
        return self.target.environment

    @property
    def objects(self) -> ObjectAdder:
        return ObjectAdder(self.engines.sessions, self.engines.directory, self.engines.sealing_keys)

    def on(self, sessions: Sessions) -> "ManagedProject":
        """Return the same project in a copy of the database, with a new key directory."""
        engines = replace(self.engines, sessions=sessions, directory=InProcessKeyDirectory())
        return replace(self, engines=engines)

    async def change(self, table: Any, number: int, **values: Any) -> None:
        """Set columns of a row."""
        async with self.engines.sessions() as session, session.begin():
            await session.execute(update(table).where(table.id == number).values(**values))

    async def change_environment(self, **values: Any) -> None:
        await self.change(Environment, self.environment.id, **values)

    async def queue(self, by: str = "owner", **params: Any) -> int:
        """Queue a deployment, as the API does; return its number."""
        async with self.engines.sessions() as session, session.begin():
            environment = await session.get_one(Environment, self.environment.id)
            made = await queue_deployment(
                session,
                DeployTarget(environment, self.project),
                DeploymentRequest(**{"trigger": "api", **params}),
                self.actor(by),
                NOW,
            )
            return made.id

    def actor(self, by: str | None = "owner") -> Actor:
        """Return this person as the author of changes; None is an operator without a name."""
        return Actor(SOURCE, None if by is None else self.people[by].id)

    async def find(self, name: str = "production") -> DeployTarget:
        """Return the environment of this slug or ID, freshly read."""
        async with self.engines.sessions() as session:
            return await self.read_target(session, name)

    async def set_variables(
        self, text: str, environment: str = "production", by: str | None = "owner"
    ) -> None:
        """Replace all variables of an environment that needs no approval for it."""
        async with self.engines.sessions() as session, session.begin():
            target = await self.read_target(session, environment)
            waiting = await replace_variables(
                session, self.engines.sealing_keys, target, read_dotenv(text), self.actor(by), NOW
            )
        assert waiting is None

    async def update_variables(
        self,
        values: Mapping[str, str],
        environment: str = "production",
        by: str = "owner",
        removed: Sequence[str] = (),
    ) -> int | None:
        """Set or remove some variables; return the number of the change if that needs approval."""
        async with self.engines.sessions() as session, session.begin():
            target = await self.read_target(session, environment)
            keys, actor = self.engines.sealing_keys, self.actor(by)
            return await update_variables(session, keys, target, values, removed, actor, NOW)

    async def protect_variables(self, *names: str, environment: str = "production") -> None:
        """Give previews no copies of these variables."""
        async with self.engines.sessions() as session, session.begin():
            target = await self.read_target(session, environment)
            await protect_variables(session, target, names, self.actor(), NOW)

    async def set_workflow(self, text: str, by: str | None = "owner") -> None:
        """Set the workflow of the project."""
        async with self.engines.sessions() as session, session.begin():
            project = await session.get_one(Project, self.project.id)
            await set_workflow(session, project, text, self.actor(by), NOW)

    async def add_environment(
        self, name: str = "Staging", type_: str = "staging", **settings: Any
    ) -> DeployTarget:
        """Create an environment; `settings` are other fields of `NewEnvironment`."""
        async with self.engines.sessions() as session, session.begin():
            project = await session.get_one(Project, self.project.id)
            new = NewEnvironment(name, type_, **settings)
            return await add_environment(session, project, new, self.actor(), NOW)

    async def change_settings(self, environment: str = "production", **changes: Any) -> Sequence[str]:
        """Change settings of an environment, fields of `SettingChanges`; return the previews that got its gate."""
        async with self.engines.sessions() as session, session.begin():
            target = await self.read_target(session, environment)
            await lock_environment_row(session, target.environment)
            changed = SettingChanges(**changes)
            return await change_environment(session, target, changed, self.actor(), NOW)

    async def lock(self, reason: str, environment: str = "production", by: str = "owner") -> None:
        """Lock an environment against deployments."""
        async with self.engines.sessions() as session, session.begin():
            await set_lock(session, await self.read_target(session, environment), reason, self.actor(by), NOW)

    async def unlock(self, environment: str = "production") -> None:
        """Allow deployments to an environment again."""
        async with self.engines.sessions() as session, session.begin():
            await remove_lock(session, await self.read_target(session, environment), self.actor(), NOW)

    async def resume_pushes(self, environment: str = "production") -> bool:
        """Let pushes deploy again after a rollback; return False if no rollback held them back."""
        async with self.engines.sessions() as session, session.begin():
            target = await self.read_target(session, environment)
            return await resume_pushes(session, target, self.actor(), NOW)

    async def scale(self, replicas: int, environment: str = "production") -> None:
        """Set the desired number of replicas."""
        async with self.engines.sessions() as session, session.begin():
            target = await self.read_target(session, environment)
            await scale_environment(session, target, replicas, self.actor(), NOW)

    async def remove_environment(self, environment: str = "production") -> RemovedEnvironment:
        """Remove an environment without a gate, and revoke its keys."""
        async with self.engines.sessions() as session, session.begin():
            target = await self.read_target(session, environment)
            removed = await remove_ungated_environment(session, target, self.actor(), NOW)
        for digest in removed.digests:
            await self.engines.directory.revoke(digest)
        return removed

    async def propose_variables(self, text: str, environment: str = "production", by: str = "owner") -> int:
        """Request a replacement of all variables that needs approval; return the number of the change."""
        async with self.engines.sessions() as session, session.begin():
            target = await self.read_target(session, environment)
            change = await replace_variables(
                session, self.engines.sealing_keys, target, read_dotenv(text), self.actor(by), NOW
            )
        assert change is not None
        return change

    async def unprotect_variable(self, name: str, environment: str = "production") -> int | None:
        """Let previews have copies of a variable; return the number of the change if that needs approval."""
        async with self.engines.sessions() as session, session.begin():
            target = await self.read_target(session, environment)
            return await request_unprotection(session, target, name, self.actor(), NOW)

    async def decide_on_variables(
        self, change: int, to: ChangeState = ChangeState.APPLIED, by: str = "maintainer"
    ) -> None:
        """Apply or reject a change of variables."""
        async with self.engines.sessions() as session, session.begin():
            row = await session.get_one(VariableChange, change)
            environment = await session.get_one(Environment, row.environment_id)
            target = DeployTarget(environment, await session.get_one(Project, environment.project_id))
            person, keys = self.people[by], self.engines.sealing_keys
            await decide_variable_change(
                session, row, target, to, person, self.actor(by), NOW, "because", keys
            )

    async def approve(
        self,
        number: int,
        by: str = "maintainer",
        revision: str | None = None,
        digest: str | None = None,
    ) -> None:
        """Approve a deployment that waits."""
        async with self.engines.sessions() as session, session.begin():
            deployment = await session.get_one(Deployment, number)
            environment_id = deployment.environment_id
            environment = None if environment_id is None else await session.get(Environment, environment_id)
            found = FoundDeployment(deployment, environment, self.project)
            person, actor = self.people[by], self.actor(by)
            await approve_deployment(
                session, deployment, get_environment(found), person, revision, actor, NOW, digest
            )

    async def read_digest(self, number: int) -> str:
        """Return the digest of the content that the deployment would run now."""
        async with self.engines.sessions() as session:
            deployment = await session.get_one(Deployment, number)
            environment = (await self.read_target(session)).environment
            inputs = await read_deployment_inputs(session, deployment, environment, deployment.revision)
        return inputs.digest()

    async def reject(self, number: int, by: str = "maintainer") -> None:
        """Reject a deployment that waits."""
        async with self.engines.sessions() as session, session.begin():
            deployment = await session.get_one(Deployment, number)
            person, actor = self.people[by], self.actor(by)
            await reject_deployment(session, deployment, person, "because", actor, NOW)

    async def cancel(self, number: int) -> None:
        """Cancel a deployment."""
        async with self.engines.sessions() as session, session.begin():
            deployment = await session.get_one(Deployment, number)
            await cancel_deployment(session, deployment, self.actor(), NOW)

    async def open_preview(
        self, branch: str, source: str | None = None, by: str = "deployer"
    ) -> tuple[DeployTarget, Deployment]:
        """Open a preview by hand; `source` is the environment whose variables the preview gets."""
        source_id = None if source is None else (await self.find(source)).environment.public_id
        async with self.engines.sessions() as session, session.begin():
            project = await session.get_one(Project, self.project.id)
            return await open_requested_preview(
                session, self.engines.sealing_keys, project, branch, source_id, self.actor(by), NOW
            )

    async def disconnect_repository(self) -> None:
        """Disconnect the repository of the project."""
        async with self.engines.sessions() as session, session.begin():
            await lock_repository(session, self.repository.id)
            repository = await session.get_one(Repository, self.repository.id)
            await disconnect_and_cancel(session, self.project, repository, self.actor(), NOW)

    async def read_target(self, session: AsyncSession, name: str = "production") -> DeployTarget:
        """Return the environment of this slug or ID, read in the session."""
        query = select(Environment).where(
            Environment.project_id == self.project.id,
            (Environment.slug == name) | (Environment.public_id == name),
        )
        environment = (await session.execute(query)).scalar_one()
        return DeployTarget(environment, await session.get_one(Project, self.project.id))

    async def deployment(self, number: int) -> Deployment:
        async with self.engines.sessions() as session:
            return await session.get_one(Deployment, number)

    async def count(self, table: Any, *conditions: Any) -> int:
        async with self.engines.sessions() as session:
            query = select(func.count()).select_from(table).where(*conditions)
            return (await session.execute(query)).scalar_one()

    async def read_audit_log(self) -> list[tuple[str, str, str | None, str, Any]]:
        """Return the audit log, newest first: action, subject, person, source, details."""
        async with self.engines.sessions() as session:
            entries = await list_newest_entries(session, 1000)
        names = ("action", "subject", "person", "source", "details")
        return [tuple(entry[name] for name in names) for entry in entries]  # type: ignore[misc]


async def make_managed_project(sessions: Sessions) -> ManagedProject:
    """Create the project in an empty, migrated database, and another account, "Other", with one person."""
    async with sessions() as session, session.begin():
        account, project, environment = await make_acme(session, NOW)
        people = {}
        for name, role in PEOPLE.items():
            account_role = "owner" if name == "owner" else "member"
            people[name] = await create_person(
                session, account, name.title(), f"{name}@acme.example", account_role, NOW
            )
            if role is not None:
                session.add(ProjectRole(project_id=project.id, person_id=people[name].id, role=role))
        other = await create_account(session, "Other", "other", RateLimit(10, 20), NOW)
        people["outsider"] = await create_person(
            session, other, "Outsider", "outsider@other.example", "owner", NOW
        )
        repository = await connect_repository(
            session, project.id, "git", "https://git.example/shop.git", "main", NOW
        )
    engines = Engines(sessions, InProcessKeyDirectory(), SealingKeys([b"k" * 32]))
    return ManagedProject(engines, account, DeployTarget(environment, project), repository, people)
