"""Executes configuration runs in a control plane. Each step is applied once, even if a worker is killed at any
point.

One transaction marks a step as started. The next transaction applies the step, records that it is applied, and
stores what has to be published to the edges. The publication follows; repeating it is harmless. A worker that finds
a started step continues from what the database has recorded.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from sqlalchemy import select
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolExhausted

from control_domain.audit import Actor
from control_domain.configurations.lowered_gates import decode_approved_gates
from control_domain.configurations.reviews import clean_up_reviews
from control_domain.configurations.runs import find_next_step, move_step, update_run_status
from control_domain.configurations.sealed_actions import open_with_current_digests
from control_domain.configurations.steps.apply_step import apply_step
from control_domain.configurations.steps.step_context import Publications, StepFailed
from control_domain.database.changes import Changes
from control_domain.database.engine import Sessions
from control_domain.database.errors import DatabaseUnavailable, is_schema_outdated
from control_domain.database.run_periodically import Throttle, run_periodically
from control_domain.projects.operations import lock_project_row
from control_domain.published_keys import ChangedKeys, publish_changes
from control_domain.sealing import CannotOpen, Sealed, SealingKeys
from control_domain.tables.configuration import Review, RunStep
from control_domain.tables.projects import Project
from control_workers.configuration_leases import LeaseHolder, LeaseLost, release_all_leases
from pipeline_contracts.deploy_states import StepStatus
from pipeline_contracts.errors import NotFound, StorageUnavailable
from storage_backends.key_directory.interface import KeyDirectory

logger = logging.getLogger(__name__)

_POLL_SECONDS = 1.0
_LEASE = timedelta(seconds=15)
_CLEAN_UP_SECONDS = 60.0
_UNEXPECTED = (
    "It failed because of an error in Pharos; see the control plane's log. Retry it, or make a new review."
)

Checkpoint = Literal["started", "applied", "published"]
OnCheckpoint = Callable[[Checkpoint, int], Awaitable[None]]
"""A callback with the name of each checkpoint, and the position of the step."""


async def no_checkpoint(checkpoint: Checkpoint, position: int) -> None:
    """Do nothing. This is the default outside fault tests."""


def _is_transient(error: Exception) -> bool:
    """Return True if a retry may succeed although nobody fixes anything."""
    # An error may belong to both the key directory and the database.
    is_away = isinstance(error, LeaseLost | DatabaseUnavailable | PoolExhausted)
    return is_away or (isinstance(error, ProgrammingError) and is_schema_outdated(error))


@dataclass(frozen=True, slots=True)
class _StartedStep:
    """A step that was started and is not complete yet."""

    step_id: int
    position: int
    publications: Publications | None
    """What is left to publish, if the step is already applied. None if it is not applied yet."""
    project_id: int


class ConfigurationRunWorker:
    """Executes configuration runs. Each control plane may run one worker."""

    def __init__(
        self,
        sessions: Sessions,
        directory: KeyDirectory,
        keys: SealingKeys,
        *,
        lease: timedelta = _LEASE,
        on_checkpoint: OnCheckpoint = no_checkpoint,
    ) -> None:
        self._sessions = sessions
        self._directory = directory
        self._keys = keys
        self._on_checkpoint = on_checkpoint
        self._holder = LeaseHolder(lease)
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()

    def wake(self) -> None:
        """Poll at once, because a run or a retry was just committed."""
        self._wake.set()

    def stop(self) -> None:
        """Make `run` end after the step in progress."""
        self._stop.set()
        self._wake.set()

    async def release_all_leases(self) -> None:
        """Take over the runs of workers that have ended. Call this only if no other worker is running."""
        async with self._sessions() as session, session.begin():
            await release_all_leases(session)

    async def run(self) -> None:
        """Execute configuration runs until `stop` is called."""
        clean_up = Throttle(_CLEAN_UP_SECONDS)

        async def do_iteration() -> None:
            if clean_up.is_due():
                await self._clean_up()
                clean_up.done()
            while not self._stop.is_set() and (run_id := await self._claim()) is not None:
                await self._execute_run(run_id)

        await run_periodically(
            do_iteration,
            self._stop,
            every=_POLL_SECONDS,
            logger=logger,
            outage="configuration runs wait for the database",
            # The run stays leased until its lease expires.
            fault="a configuration run could not be continued",
            wake=self._wake,
            changes=Changes(self._sessions),
        )

    async def _clean_up(self) -> None:
        async with self._sessions() as session, session.begin():
            await clean_up_reviews(session, datetime.now(UTC))

    async def _claim(self) -> int | None:
        async with self._sessions() as session, session.begin():
            return await self._holder.claim(session)

    async def _execute_run(self, run_id: int) -> None:
        try:
            while not self._stop.is_set() and (started := await self._start_step(run_id)) is not None:
                await self._on_checkpoint("started", started.position)
                await self._execute_step(run_id, started)
        except LeaseLost:
            # Another worker has the run, or its remaining steps were canceled.
            logger.info("configuration run %d is no longer leased to this worker", run_id)
        if self._stop.is_set():
            await self._release(run_id)

    async def _start_step(self, run_id: int) -> _StartedStep | None:
        """Start the next step, or resume the step that was in progress when a worker ended. None if no step is
        left."""
        now = datetime.now(UTC)
        async with self._sessions() as session, session.begin():
            run = await self._holder.renew(session, run_id)
            # Read only two columns: a run may have thousands of steps, and each of them repeats this query.
            query = select(RunStep.id, RunStep.status).where(RunStep.run_id == run_id)
            steps = (await session.execute(query.order_by(RunStep.position))).all()
            index = find_next_step([StepStatus(status) for _, status in steps])
            if index is None:
                await update_run_status(session, run, now)
                return None
            step = await session.get_one(RunStep, steps[index][0])
            if step.status == StepStatus.PENDING:
                await move_step(session, step, StepStatus.RUNNING, now, started_at=now)
            step.attempts += 1
            publications = None if step.publications is None else Publications.from_json(step.publications)
            return _StartedStep(step.id, step.position, publications, run.project_id)

    async def _execute_step(self, run_id: int, started: _StartedStep) -> None:
        try:
            await self._apply_and_publish(run_id, started)
        except (StepFailed, CannotOpen) as error:
            await self._finish_step(run_id, started, StepStatus.FAILED, str(error))
        except Exception as error:
            if _is_transient(error):
                raise
            # Retrying forever would block all later steps, and a step in progress cannot be canceled.
            logger.exception("step %d of configuration run %d failed", started.step_id, run_id)
            await self._finish_step(run_id, started, StepStatus.FAILED, _UNEXPECTED)

    async def _apply_and_publish(self, run_id: int, started: _StartedStep) -> None:
        publications = started.publications
        if publications is None:
            publications = await self._apply(run_id, started)
            await self._on_checkpoint("applied", started.position)
            if not publications:
                return
        try:
            await self._publish(publications)
        except StorageUnavailable as error:
            if _is_transient(error):
                raise
            message = f"It is done, but the edges could not be informed: {error} Retry the operation to inform them."
            await self._finish_step(run_id, started, StepStatus.FAILED, message)
            return
        await self._on_checkpoint("published", started.position)
        await self._finish_step(run_id, started, StepStatus.SUCCEEDED, None)

    async def _apply(self, run_id: int, started: _StartedStep) -> Publications:
        now = datetime.now(UTC)
        async with self._sessions() as session, session.begin():
            project = await session.get(Project, started.project_id)
            if project is None:
                raise StepFailed("The project was removed.")
            try:
                # Lock the project before the run, in the same order as a request to cancel a step.
                await lock_project_row(session, project)
            except NotFound:
                raise StepFailed("The project was removed.") from None
            run = await self._holder.renew(session, run_id)
            step = await session.get_one(RunStep, started.step_id)
            if step.sealed is None or step.key_id is None:
                raise StepFailed("The action of this operation is no longer stored: make a new review.")
            sealed = Sealed(step.key_id, step.sealed)
            (action,) = await open_with_current_digests(session, self._keys, project, sealed)
            actor = Actor(run.source, run.person_id, run.token_id, run.request_id)
            gates = decode_approved_gates(step.approved_gates)
            review = await session.get_one(Review, run.review_id)
            publications = await apply_step(
                session, self._keys, project, action, actor, now, gates, review.made_by_id
            )
            step.sealed = step.key_id = None
            if publications:
                step.publications = publications.to_json()
            else:
                await move_step(session, step, StepStatus.SUCCEEDED, now, error=None)
            await session.flush()
            return publications

    async def _publish(self, publications: Publications) -> None:
        """Publish only the keys that one step has changed. Publishing all keys would cost far more."""
        changed = ChangedKeys(
            sites=[*publications.sites], revoked=[*publications.revoke], names=[*publications.names]
        )
        await publish_changes(self._sessions, self._directory, changed, datetime.now(UTC))

    async def _finish_step(
        self, run_id: int, started: _StartedStep, to: StepStatus, error: str | None
    ) -> None:
        now = datetime.now(UTC)
        async with self._sessions() as session, session.begin():
            await self._holder.renew(session, run_id)
            step = await session.get_one(RunStep, started.step_id, populate_existing=True)
            if to is StepStatus.SUCCEEDED:
                step.publications = None
            await move_step(session, step, to, now, error=error)
        if error is not None:
            logger.warning("step %d of configuration run %d failed: %s", started.step_id, run_id, error)

    async def _release(self, run_id: int) -> None:
        async with self._sessions() as session, session.begin():
            await self._holder.release(session, run_id)


@asynccontextmanager
async def running_configuration_worker(
    worker: ConfigurationRunWorker, *, is_alone: bool
) -> AsyncIterator[ConfigurationRunWorker]:
    """Run the worker. At the end of the context, wait for the step in progress. `is_alone`: True if no other worker
    uses the database."""
    if is_alone:
        await worker.release_all_leases()
    task = asyncio.create_task(worker.run(), name="configuration runs")
    try:
        yield worker
    finally:
        worker.stop()
        await task
