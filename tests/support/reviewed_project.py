"""A project whose configuration is reviewed and applied over HTTP, with a worker that executes the runs."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import func, select, update

from control_domain.configurations.project_state import read_project_state
from control_domain.configurations.resources import ProjectState
from control_domain.sealing import SealingKeys
from control_domain.tables.audit import AuditEntry
from control_domain.tables.configuration import ConfigurationRun, Review
from control_domain.tables.projects import Project
from control_workers.configuration_runs import ConfigurationRunWorker, running_configuration_worker
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.key_directory.interface import KeyDirectory
from tests.support.deploy_platform import Platform, Response

_SECONDS = 120


@dataclass(slots=True)
class ReviewedProject:
    """One of acme's projects. Documents are passed without the line of their version."""

    platform: Platform
    slug: str = "blog"
    directory: KeyDirectory = field(default_factory=InProcessKeyDirectory)
    sessions: Any = None
    """Sessions of the worker; None for those of the platform."""

    @property
    def keys(self) -> SealingKeys:
        keys: SealingKeys = self.platform.app.state.variable_keys
        return keys

    @property
    def project(self) -> Project:
        return self.platform.acme.projects[self.slug]

    async def call(
        self, method: str, path: str, body: Any = None, *, who: str = "owner", key: str | None = None
    ) -> Response:
        """Call the API. `path` is the part after `/configuration/`."""
        return await self.platform.call(
            method,
            f"/v1/projects/{self.project.public_id}/configuration/{path}",
            body,
            token=self.platform.acme.token(who),
            headers={"Idempotency-Key": key},
        )

    async def ask(
        self, path: str, document: str, bindings: Mapping[str, Any] | None = None, **options: Any
    ) -> Response:
        """Send the document to `path`, which is `plan` or `reviews`."""
        body = {"document": f"version: 2\n{document}", "bindings": dict(bindings or {})}
        return await self.call("POST", path, body, **options)

    async def review(self, document: str, bindings: Mapping[str, Any] | None = None) -> int:
        """Create a review and return its ID."""
        answer = await self.ask("reviews", document, bindings)
        assert answer.status == 201, answer
        number: int = answer.data["id"]
        return number

    async def apply(self, review: int, **options: Any) -> Response:
        return await self.call("POST", f"reviews/{review}/apply", **options)

    async def begin(self, document: str, bindings: Mapping[str, Any] | None = None) -> Any:
        """Review and apply the document; return the run, which no worker executes yet."""
        answer = await self.apply(await self.review(document, bindings))
        assert answer.status == 200, answer
        return answer.data

    async def read(self, run: int) -> Any:
        answer = await self.call("GET", f"applications/{run}")
        assert answer.status == 200, answer
        return answer.data

    async def move_step(self, run: int, step: int, action: str, **options: Any) -> Response:
        return await self.call("POST", f"applications/{run}/operations/{step}/{action}", **options)

    @contextlib.asynccontextmanager
    async def working(self, **options: Any) -> AsyncIterator[ConfigurationRunWorker]:
        """Run a worker that the API wakes."""
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

    async def finished(self, run: int) -> Any:
        """Wait until the run is finished and return it."""
        running = ConfigurationRun.id == run, ConfigurationRun.status == "running"
        async with asyncio.timeout(_SECONDS):
            # Read the database, because a request over HTTP takes five times as long.
            while await self.count(ConfigurationRun, *running):
                await asyncio.sleep(0.02)
        return await self.read(run)

    async def work(self, run: int, **options: Any) -> Any:
        """Execute the run with a worker and return it."""
        async with self.working(**options):
            return await self.finished(run)

    async def apply_document(self, document: str, bindings: Mapping[str, Any] | None = None) -> Any:
        """Review and apply the document and execute the run, which has to succeed."""
        result = await self.work((await self.begin(document, bindings))["id"])
        assert result["status"] == "succeeded", result
        return result

    async def state(self) -> ProjectState:
        """Return the project's state as plans read it."""
        async with self.platform.sessions() as session:
            project = await session.get_one(Project, self.project.id)
            return await read_project_state(session, self.keys, project)

    async def fields(self, *address: str) -> Mapping[str, Any] | None:
        """Return the fields of a resource; None if it does not exist."""
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
        """Move the review's creation and expiry back."""
        async with self.platform.sessions() as session, session.begin():
            row = await session.get_one(Review, review)
            row.created_at -= by
            row.expires_at -= by

    async def count_runs(self) -> int:
        """Count the project's runs."""
        return await self.count(ConfigurationRun, ConfigurationRun.project_id == self.project.id)

    async def audited(self) -> list[tuple[str, Any]]:
        """Return action and details of all audit entries in order."""
        return [(row.action, json.loads(row.details)) for row in await self.rows(AuditEntry)]


def statuses(run: Any) -> list[str]:
    """Return the statuses of the run's steps in order."""
    return [step["status"] for step in run["operations"]]
