"""Queues pushes that waited for another deployment, and removes previews that could not be removed at once.

The worker polls the database. So no code that finishes a deployment has to notify it, and a new control plane
continues where a killed one stopped.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from sqlalchemy import delete, exists, literal, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, read_actor
from control_domain.database.changes import Changes
from control_domain.database.engine import Sessions
from control_domain.database.run_periodically import Throttle, run_periodically
from control_domain.environments.operations import lock_deployer_lease, lock_environment_row
from control_domain.keys import revoke_published_keys
from control_domain.previews.operations import close_preview
from control_domain.projects.find import DeployTarget
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment, Project
from control_domain.tables.webhooks import ClosingPreview, WaitingPush
from control_domain.webhooks.deliveries import delete_old_deliveries
from control_domain.webhooks.waiting_pushes import find_due_pushes, queue_waiting_push
from pipeline_contracts.deploy_states import DeploymentStatus, ForbiddenTransition
from pipeline_contracts.errors import Problem
from storage_backends.key_directory.interface import KeyDirectory

logger = logging.getLogger(__name__)

_POLL_SECONDS = 1.0
_CLEANUP_SECONDS = 600.0


class WaitingPushWorker:
    """Queues waiting pushes and removes closing previews. Any number of workers may run, one in each control plane."""

    def __init__(self, sessions: Sessions, directory: KeyDirectory) -> None:
        self._sessions = sessions
        self._directory = directory
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Stop `run` after the current iteration."""
        self._stop.set()

    async def run(self) -> None:
        """Run until `stop` is called."""
        cleanup = Throttle(_CLEANUP_SECONDS)

        async def do_iteration() -> None:
            if cleanup.is_due():
                await self._delete_old_deliveries()
                cleanup.done()
            await self.process_waiting()

        await run_periodically(
            do_iteration,
            self._stop,
            every=_POLL_SECONDS,
            logger=logger,
            outage="waiting pushes cannot be queued: the database is unreachable",
            fault="waiting pushes could not be queued",
            changes=Changes(self._sessions),
        )

    async def process_waiting(self) -> None:
        """Queue each waiting push whose environment has no active deployment. Remove each closing preview that can be
        removed."""
        now = datetime.now(UTC)
        async with self._sessions() as session:
            if not await _is_anything_waiting(session):
                return
            due, closing = await find_due_pushes(session), await _find_closing(session)
        for number in due:
            await self._queue(number, now)
        for environment_id in closing:
            await self._close(environment_id, now)

    async def _queue(self, number: int, now: datetime) -> None:
        try:
            async with self._sessions() as session, session.begin():
                deployment = await queue_waiting_push(session, number, now)
        except Problem as problem:
            # Another worker has queued the push, or somebody has locked the environment meanwhile.
            logger.info("a push keeps waiting: %s", problem.detail)
            return
        if deployment is not None:
            logger.info("deployment %d was queued for a waiting push", deployment.id)

    async def _close(self, environment_id: int, now: datetime) -> None:
        try:
            async with self._sessions() as session, session.begin():
                found = await _find_preview(session, environment_id)
                if found is None:
                    return
                target, actor = found
                if not await _claim_closing(session, target):
                    return
                removed = await close_preview(session, target, actor, now)
        except (Problem, ForbiddenTransition) as error:
            logger.info("a preview cannot be removed yet: %s", error)
            return
        await revoke_published_keys(self._directory, removed.digests)

    async def _delete_old_deliveries(self) -> None:
        async with self._sessions() as session, session.begin():
            await delete_old_deliveries(session, datetime.now(UTC))


async def _is_anything_waiting(session: AsyncSession) -> bool:
    """Return True if a push or a preview waits. Usually nothing waits, and this costs only one short query."""
    query = select(literal(True)).where(
        exists(select(WaitingPush.id)) | exists(select(ClosingPreview.source))
    )
    return (await session.execute(query)).scalar_one_or_none() is not None


async def _find_closing(session: AsyncSession) -> list[int]:
    starting = exists().where(
        Deployment.environment_id == ClosingPreview.environment_id,
        Deployment.status == DeploymentStatus.RUNNING,
    )
    query = select(ClosingPreview.environment_id).where(~starting)
    return list((await session.execute(query)).scalars())


async def _claim_closing(session: AsyncSession, target: DeployTarget) -> bool:
    """Return True if the preview must still be closed. When its pull request is reopened, the same locks are taken in
    the same order."""
    await lock_deployer_lease(session, target.environment)
    await lock_environment_row(session, target.environment)
    claimed = await session.execute(
        delete(ClosingPreview)
        .where(ClosingPreview.environment_id == target.environment.id)
        .returning(ClosingPreview.environment_id)
        .execution_options(synchronize_session=False)
    )
    return claimed.first() is not None


async def _find_preview(session: AsyncSession, environment_id: int) -> tuple[DeployTarget, Actor] | None:
    row = (
        await session.execute(
            select(Environment, Project, ClosingPreview)
            .join(Project, Project.id == Environment.project_id)
            .join(ClosingPreview, ClosingPreview.environment_id == Environment.id)
            .where(Environment.id == environment_id)
        )
    ).one_or_none()
    return None if row is None else (DeployTarget(row[0], row[1]), read_actor(row[2]))


@asynccontextmanager
async def running_push_worker(worker: WaitingPushWorker) -> AsyncIterator[WaitingPushWorker]:
    """Run the worker. At the end of the context, wait for its current iteration."""
    task = asyncio.create_task(worker.run(), name="waiting pushes")
    try:
        yield worker
    finally:
        worker.stop()
        await task
