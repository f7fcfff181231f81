"""Removal of projects: with all their rows and no others, once, and only if they are empty."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import create_account, create_person
from control_domain.alert_events import record_alert_event
from control_domain.audit import Actor
from control_domain.database.engine import Sessions
from control_domain.projects.change import add_project
from control_domain.projects.find import DeployTarget
from control_domain.projects.members import remove_project_role, set_project_role
from control_domain.projects.operations import create_environment
from control_domain.removals.remove_environment import remove_environment
from control_domain.removals.remove_project import remove_project
from control_domain.repositories.operations import connect_repository, disconnect_repository
from control_domain.sites.operations import create_site
from control_domain.tables.accounts import Account, Person
from control_domain.tables.audit import AuditEntry
from control_domain.tables.deployments import Deployment, DeploymentLine
from control_domain.tables.notifications import AlertEvent
from control_domain.tables.projects import Environment, Project, ProjectRole
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import SealedWebhookSecret, WaitingPush, WebhookDelivery
from pipeline_contracts.errors import Conflict, NotFound
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.times import format_time

_ROUNDS = 10
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
_ACTOR = Actor("test")


@dataclass(slots=True)
class Beta:
    """An account with its owner and a member, in a separate database."""

    sessions: Sessions
    account: Account
    member: Person

    async def add_project(self, name: str) -> Project:
        async with self.sessions() as session, session.begin():
            return await add_project(session, self.account, name, None, _ACTOR, NOW)

    async def remove(self, project: Project) -> int:
        async with self.sessions() as session, session.begin():
            return await remove_project(session, await self._account(session), project, _ACTOR, NOW)

    async def grant(self, project: Project, role: str) -> None:
        async with self.sessions() as session, session.begin():
            person = self.member.public_id
            account = await self._account(session)
            await set_project_role(session, account, project, person, role, _ACTOR, NOW)

    async def revoke(self, project: Project) -> None:
        async with self.sessions() as session, session.begin():
            person = self.member.public_id
            account = await self._account(session)
            await remove_project_role(session, account, project, person, _ACTOR, NOW)

    async def _account(self, session: AsyncSession) -> Account:
        return await session.get_one(Account, self.account.id)

    async def count(self, table: Any) -> int:
        async with self.sessions() as session:
            return (await session.execute(select(func.count()).select_from(table))).scalar_one()

    async def removals(self) -> list[AuditEntry]:
        """Return the audit entries of removed projects."""
        async with self.sessions() as session:
            query = select(AuditEntry).where(AuditEntry.action == "project.remove")
            return list(await session.scalars(query))

    async def check_references(self) -> None:
        """Check that no row refers to a deleted one. Postgres rejects such a deletion itself."""
        async with self.sessions() as session:
            if session.get_bind().dialect.name == "sqlite":
                assert (await session.execute(text("PRAGMA foreign_key_check"))).all() == []


@pytest.fixture
async def beta(sessions: Sessions) -> Beta:
    async with sessions() as session, session.begin():
        account = await create_account(session, "Beta", "beta", RateLimit(10, 20), NOW)
        await create_person(session, account, "Olga", "owner@example.com", "owner", NOW)
        member = await create_person(session, account, "Eve", "eve@example.com", "member", NOW)
    return Beta(sessions, account, member)


async def add_deployments(beta: Beta, project: Project) -> None:
    """Add the remains of a deployed project: two repositories, the first one disconnected, and deployments of removed
    environments that refer to each other."""
    async with beta.sessions() as session, session.begin():
        first = await connect_repository(session, project.id, "git", "/srv/old.git", "main", NOW)
        await disconnect_repository(session, first, NOW)
        second = await connect_repository(session, project.id, "git", "/srv/new.git", "main", NOW)
        made: list[Deployment] = []
        for number in range(6):
            deployment = Deployment(
                account_id=project.account_id,
                project_id=project.id,
                repository_id=(first if number < 3 else second).id,
                status="succeeded",
                trigger="api",
                needs_approval=False,
                created_at=NOW,
                promoted_from_id=made[-1].id if number % 2 else None,
                rolled_back_to_id=made[0].id if number == 4 else None,
            )
            session.add(deployment)
            await session.flush()
            made.append(deployment)
            session.add_all(
                DeploymentLine(
                    deployment_id=deployment.id, at=format_time(NOW), stream="stdout", text=f"line {line}"
                )
                for line in range(3)
            )


async def add_webhooks(beta: Beta, project: Project) -> None:
    """Add a secret and deliveries of each repository of the project."""
    async with beta.sessions() as session, session.begin():
        query = select(Repository).where(Repository.project_id == project.id)
        for repository in await session.scalars(query):
            session.add(
                SealedWebhookSecret(
                    repository_id=repository.id, kind="hmac", key_id="k", sealed=b"s", created_at=NOW
                )
            )
            session.add_all(
                WebhookDelivery(
                    repository_id=repository.id,
                    scope=str(repository.id),
                    delivery=delivery,
                    is_first=True,
                    kind="github",
                    event="push",
                    headers="{}",
                    body=b"",
                    http_status=202,
                    answer="queued",
                    received_at=NOW,
                )
                for delivery in ("d1", "d2")
            )


@pytest.mark.both_databases
async def test_a_project_is_removed_with_its_deployments(beta: Beta) -> None:
    projects = [await beta.add_project(name) for name in ("Shop", "Blog")]
    for project in projects:
        await add_deployments(beta, project)
        await beta.grant(project, "viewer")
        async with beta.sessions() as session, session.begin():
            kind, now = "platform.commit_statuses", datetime.now(UTC)
            ids = {"account_id": project.account_id, "project_id": project.id}
            record_alert_event(session, kind, "github acme/shop", "firing", now, **ids)
    assert await beta.remove(projects[0]) == 6
    # The other project is unchanged.
    tables = (Project, Deployment, DeploymentLine, Repository, ProjectRole)
    assert [await beta.count(table) for table in tables] == [1, 6, 18, 2, 1]
    async with beta.sessions() as session:
        promoted = select(Deployment.id).where(Deployment.promoted_from_id.is_not(None))
        assert len((await session.execute(promoted)).all()) == 3
        ended = select(AlertEvent.project_id, AlertEvent.subject).where(AlertEvent.state == "resolved")
        assert (await session.execute(ended)).all() == [(projects[0].id, "github acme/shop")]
    with pytest.raises(NotFound):
        await beta.remove(projects[0])
    (entry,) = await beta.removals()
    assert entry.subject == f"project {projects[0].public_id}"
    assert entry.details == '{"name": "Shop", "slug": "shop", "deployments": 6}'
    await beta.check_references()
    # The slug can be used again.
    assert (await beta.add_project("Shop")).slug == "shop"


@pytest.mark.both_databases
async def test_a_project_is_removed_with_its_webhooks(beta: Beta) -> None:
    projects = [await beta.add_project(name) for name in ("Shop", "Blog")]
    for project in projects:
        await add_deployments(beta, project)
        await add_webhooks(beta, project)
    async with beta.sessions() as session, session.begin():
        # A delivery to the Git host's application, which belongs to no project.
        delivery = (await session.scalars(select(WebhookDelivery).limit(1))).one()
        delivery.repository_id = None
    await beta.remove(projects[0])
    tables = (Repository, SealedWebhookSecret, WebhookDelivery)
    assert [await beta.count(table) for table in tables] == [2, 2, 5]
    await beta.check_references()


@pytest.mark.both_databases
async def test_waiting_pushes_are_removed_with_the_environment_and_the_project(beta: Beta) -> None:
    project = await beta.add_project("Shop")
    await add_deployments(beta, project)
    async with beta.sessions() as session, session.begin():
        environment = await create_environment(session, project, "Pull 7", "pull-7", "preview", NOW)
        for repository in await session.scalars(select(Repository)):
            session.add(
                WaitingPush(
                    environment_id=environment.id,
                    repository_id=repository.id,
                    branch=f"b{repository.id}",
                    trigger="push",
                    source="203.0.113.7",
                    created_at=NOW,
                )
            )
    async with beta.sessions() as session, session.begin():
        target = DeployTarget(
            await session.get_one(Environment, environment.id), await session.get_one(Project, project.id)
        )
        await remove_environment(session, target, _ACTOR, NOW)
    assert await beta.count(WaitingPush) == 0
    await beta.remove(project)
    await beta.check_references()


async def test_a_project_in_use_is_not_removed(beta: Beta) -> None:
    project = await beta.add_project("Shop")
    async with beta.sessions() as session, session.begin():
        for number in range(7):
            await create_environment(session, project, f"E{number}", f"e{number}", "preview", NOW)
    await add_deployments(beta, project)
    with pytest.raises(Conflict) as refused:
        await beta.remove(project)
    assert refused.value.detail == (
        "The project shop still has the environments e0, e1, e2, e3, e4 and 2 more. Remove these first."
    )
    async with beta.sessions() as session, session.begin():
        await create_site(session, project.id, "shop.example", "UTC", ["https://shop.example"], NOW)
    with pytest.raises(Conflict, match="e4 and 2 more and the site shop.example. Remove"):
        await beta.remove(project)
    tables = (Project, Deployment, DeploymentLine, Repository)
    assert [await beta.count(table) for table in tables] == [1, 6, 18, 2]
    assert await beta.removals() == []


@pytest.mark.both_databases
async def test_concurrent_additions_to_a_removed_project(beta: Beta) -> None:
    """Either there is an environment and the project, or neither."""

    async def add_environment(project: Project) -> None:
        async with beta.sessions() as session, session.begin():
            found = (await session.execute(select(Project).where(Project.id == project.id))).scalar_one()
            await create_environment(session, found, "Production", "production", "production", NOW)

    for number in range(_ROUNDS):
        project = await beta.add_project(f"p{number}")
        await add_deployments(beta, project)
        removed, added = await asyncio.gather(
            beta.remove(project), add_environment(project), return_exceptions=True
        )
        if isinstance(removed, BaseException):
            assert added is None
            assert isinstance(removed, Conflict)
        else:
            assert (
                "Integrity" in repr(added)
                or "BrokenReference" in repr(added)
                or "NoResultFound" in repr(added)
            )
        async with beta.sessions() as session:
            remains = await session.get(Project, project.id) is not None
        assert remains == isinstance(removed, BaseException)
    await beta.check_references()


@pytest.mark.both_databases
async def test_a_project_is_removed_once(beta: Beta) -> None:
    for number in range(_ROUNDS):
        project = await beta.add_project(f"p{number}")
        await add_deployments(beta, project)
        answers = await asyncio.gather(*(beta.remove(project) for _ in range(3)), return_exceptions=True)
        refusals = [each for each in answers if isinstance(each, BaseException)]
        assert len(refusals) == 2
        assert all(isinstance(each, NotFound) for each in refusals)
    assert len(await beta.removals()) == _ROUNDS


@pytest.mark.both_databases
async def test_concurrent_roles_in_a_removed_project(beta: Beta) -> None:
    for number in range(_ROUNDS):
        project = await beta.add_project(f"p{number}")
        if number % 2:
            await beta.grant(project, "viewer")
        removed, *others = await asyncio.gather(
            beta.remove(project),
            beta.grant(project, "deployer"),
            beta.revoke(project),
            return_exceptions=True,
        )
        assert not isinstance(removed, BaseException)
        for each in others:
            assert not isinstance(each, BaseException) or isinstance(each, NotFound)
    assert await beta.count(ProjectRole) == 0
    await beta.check_references()
