"""Deployments of pushed commits, on both databases, and a fake GitHub that receives their commit statuses."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from control_domain.database.engine import Sessions
from control_domain.deployments.transitions import transition_deployment
from control_domain.projects.find import DeployTarget
from control_domain.projects.operations import create_environment
from control_domain.tables.deployments import Deployment
from control_domain.tables.repositories import Repository
from control_workers.commit_statuses import report_periodically
from git_hosts.github import commit_statuses as adapter
from git_hosts.github.commit_statuses import GitHubStatusClient, open_github_status_client
from pipeline_contracts.deploy_states import DeploymentStatus
from tests.control_workers.commit_statuses.fake_github import TOKEN, FakeGitHub
from tests.support.managed_project import NOW, REVISION, ManagedProject
from tests.support.prepared_project import database_url, managed, prepared_project

__all__ = ["clock", "database_url", "github", "managed", "prepared_project", "pushed", "statuses"]


@dataclass(slots=True)
class Pushed:
    """The project "shop", which is deployed from `acme/shop` on GitHub."""

    managed: ManagedProject
    sessions: Sessions

    async def push(self, **values: Any) -> int:
        """Insert a deployment of a push, of a known commit, and return its number. `values` are columns."""
        row = {
            "account_id": self.managed.account.id,
            "project_id": self.managed.project.id,
            "repository_id": self.managed.repository.id,
            "environment_id": self.managed.environment.id,
            "status": "queued",
            "trigger": "push",
            "revision": REVISION,
            "needs_approval": False,
            "created_at": NOW,
        }
        async with self.sessions() as session, session.begin():
            deployment = Deployment(**{**row, **values})
            session.add(deployment)
            await session.flush()
            return deployment.id

    async def push_finished(self, count: int) -> list[str]:
        """Insert `count` successful deployments, oldest first, and return their commits."""
        commits = [f"{number:040x}" for number in range(1, count + 1)]
        for commit in commits:
            await self.push(revision=commit, status="succeeded")
        return commits

    async def transition(self, number: int, *to: str) -> None:
        """Move the deployment through these statuses."""
        for status in to:
            async with self.sessions() as session, session.begin():
                deployment = await session.get_one(Deployment, number)
                await transition_deployment(session, deployment, DeploymentStatus(status), NOW)

    async def add_environment(self, slug: str, type_: str = "staging") -> DeployTarget:
        async with self.sessions() as session, session.begin():
            made = await create_environment(session, self.managed.project, slug, slug, type_, NOW)
            return DeployTarget(made, self.managed.project)

    async def reported(self, number: int) -> str | None:
        return (await self.managed.deployment(number)).reported


class Clock:
    """A clock that only moves when a test advances it."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
async def pushed(managed: ManagedProject, sessions: Sessions) -> Pushed:
    await managed.change(Repository, managed.repository.id, kind="github", full_name="acme/shop")
    return Pushed(managed, sessions)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(autouse=True)
def long_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use long timeouts unless a test says otherwise: on a slow machine a timeout would cause a second report."""
    monkeypatch.setattr(adapter, "_TIMEOUT_SECONDS", 120.0)
    monkeypatch.setattr(report_periodically, "_SHUTDOWN_SECONDS", 120.0)


@pytest.fixture
async def github() -> AsyncIterator[FakeGitHub]:
    fake = FakeGitHub()
    async with fake.serve():
        yield fake


@pytest.fixture
async def statuses(github: FakeGitHub) -> AsyncIterator[GitHubStatusClient]:
    """The client of the fake GitHub."""
    async with open_github_status_client(TOKEN, github.url) as opened:
        yield opened
