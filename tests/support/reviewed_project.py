"""A project whose configuration is reviewed and applied over HTTP, and carried out by a worker."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import func, select, update

from control_domain.configurations.read_state import read_state
from control_domain.configurations.state import ProjectState
from control_domain.sealing import SealingKeys
from control_domain.tables.audit import AuditEntry
from control_domain.tables.configuration import Application, Review
from control_domain.tables.projects import Project
from control_workers.configuration_runs import ConfigurationRunWorker, running_configuration_worker
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.key_directory.interface import KeyDirectory
from tests.support.deploy_platform import Answer, Platform

_SECONDS = 120


@dataclass(slots=True)
class ReviewedProject:
    """One of acme's projects. Documents are given without their version."""

    platform: Platform
    slug: str = "blog"
    directory: KeyDirectory = field(default_factory=InProcessKeyDirectory)
    sessions: Any = None
    """Those of the worker; None: those of the platform."""

    @property
    def keys(self) -> SealingKeys:
        keys: SealingKeys = self.platform.app.state.variable_keys
        return keys

    @property
    def project(self) -> Project:
        return self.platform.acme.projects[self.slug]

    async def call(
        self, method: str, path: str, body: Any = None, *, who: str = "owner", key: str | None = None
    ) -> Answer:
        """`path` is what comes behind `/configuration/`."""
        return await self.platform.call(
            method,
            f"/v1/projects/{self.project.public_id}/configuration/{path}",
            body,
            token=self.platform.acme.token(who),
            headers={"Idempotency-Key": key},
        )

    async def ask(
        self, path: str, document: str, bindings: Mapping[str, Any] | None = None, **options: Any
    ) -> Answer:
        """`path`: `plan` or `reviews`."""
        body = {"document": f"version: 2\n{document}", "bindings": dict(bindings or {})}
        return await self.call("POST", path, body, **options)

    async def review(self, document: str, bindings: Mapping[str, Any] | None = None) -> int:
        """The number of a new review."""
        answer = await self.ask("reviews", document, bindings)
        assert answer.status == 201, answer
        number: int = answer.data["id"]
        return number

    async def apply(self, review: int, **options: Any) -> Answer:
        return await self.call("POST", f"reviews/{review}/apply", **options)

    async def begin(self, document: str, bindings: Mapping[str, Any] | None = None) -> Any:
        """Review and apply it; the application, which nobody carries out yet."""
        answer = await self.apply(await self.review(document, bindings))
        assert answer.status == 200, answer
        return answer.data

    async def read(self, application: int) -> Any:
        answer = await self.call("GET", f"applications/{application}")
        assert answer.status == 200, answer
        return answer.data

    async def operate(self, application: int, operation: int, action: str, **options: Any) -> Answer:
        return await self.call(
            "POST", f"applications/{application}/operations/{operation}/{action}", **options
        )

    @contextlib.asynccontextmanager
    async def working(self, **options: Any) -> AsyncIterator[ConfigurationRunWorker]:
        """A worker is at work, and told of news."""
        worker = ConfigurationRunWorker(
            self.sessions or self.platform.sessions, self.directory, self.keys, **options
        )
        state = self.platform.app.state
        before, state.wake_configuration_runs = state.wake_configuration_runs, worker.wake
        try:
            async with running_configuration_worker(worker, is_alone=False):
                yield worker
        finally:
            state.wake_configuration_runs = before

    async def finished(self, application: int) -> Any:
        """The application once it is not running any more."""
        running = Application.id == application, Application.status == "running"
        async with asyncio.timeout(_SECONDS):
            # Not over HTTP, which takes five times as long.
            while await self.count(Application, *running):
                await asyncio.sleep(0.02)
        return await self.read(application)

    async def work(self, application: int, **options: Any) -> Any:
        """Let a worker carry it out; the application as it is then."""
        async with self.working(**options):
            return await self.finished(application)

    async def bring_about(self, document: str, bindings: Mapping[str, Any] | None = None) -> Any:
        """Review, apply and carry out; all of it has to succeed."""
        told = await self.work((await self.begin(document, bindings))["id"])
        assert told["status"] == "succeeded", told
        return told

    async def state(self) -> ProjectState:
        """The project as a plan sees it."""
        async with self.platform.sessions() as session:
            project = await session.get_one(Project, self.project.id)
            return await read_state(session, self.keys, project)

    async def fields(self, *address: str) -> Mapping[str, Any] | None:
        """Those of one resource; None where there is none."""
        present = (await self.state()).resources.get(address)
        return None if present is None else present.fields

    async def change(self, table: Any, number: int, **values: Any) -> None:
        """Set columns of a row."""
        async with self.platform.sessions() as session, session.begin():
            await session.execute(update(table).where(table.id == number).values(**values))

    async def rows(self, table: Any, *conditions: Any) -> Sequence[Any]:
        async with self.platform.sessions() as session:
            return (
                (await session.execute(select(table).where(*conditions).order_by(table.id))).scalars().all()
            )

    async def count(self, table: Any, *conditions: Any) -> int:
        async with self.platform.sessions() as session:
            query = select(func.count()).select_from(table).where(*conditions)
            return (await session.execute(query)).scalar_one()

    async def age(self, review: int, by: timedelta) -> None:
        """Let the review have been made so much earlier."""
        async with self.platform.sessions() as session, session.begin():
            row = await session.get_one(Review, review)
            row.created_at -= by
            row.expires_at -= by

    async def applications(self) -> int:
        """How many the project has had."""
        return await self.count(Application, Application.project_id == self.project.id)

    async def audited(self) -> list[tuple[str, Any]]:
        """What was done in all accounts since the first moment, in order: action and details."""
        return [(row.action, json.loads(row.details)) for row in await self.rows(AuditEntry)]


def statuses(application: Any) -> list[str]:
    """Those of its operations, in their order."""
    return [operation["status"] for operation in application["operations"]]
