"""Writes the progress of a deployment to the database, each time under the environment's lease."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial, wraps
from typing import Any, TypeVar, cast

import msgspec
from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.engine import Sessions
from control_domain.deployments.progress import reach_step
from control_domain.deployments.transitions import add_log_line, transition_deployment
from control_domain.recorded_deployments.markers import mark_deployment
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.workflows.document import WorkflowDocument, to_json
from deployer.deployments.log import utc_now
from deployer.drivers.interface import BuildResult
from deployer.leases import Lease, lock_lease
from deployer.retry_while_leased import retry_while_leased
from deployer.shield import shielded
from pipeline_contracts.deploy_states import DeploymentStatus, DeploymentStep

Write = TypeVar("Write", bound=Callable[..., Awaitable[Any]])


class DeploymentIsLive(Exception):
    """The deployment cannot fail any more, because its release is live."""


def _retry_while_leased(write: Write) -> Write:
    """Return a method that repeats each call while the database is away. The call must be repeatable: a commit whose
    confirmation was lost may have succeeded."""

    @wraps(write)
    async def run(self: "DeploymentRecord", *args: Any, **kwargs: Any) -> Any:
        return await retry_while_leased(self._lease, partial(write, self, *args, **kwargs))

    return cast(Write, run)


class DeploymentRecord:
    """Writes the rows of one deployment. All methods raise `LeaseLost`, `ForbiddenTransition` if the deployment was
    canceled, and database errors that last longer than the lease."""

    def __init__(self, sessions: Sessions, lease: Lease, deployment_id: int) -> None:
        self._sessions = sessions
        self._lease = lease
        self._deployment_id = deployment_id

    @_retry_while_leased
    @shielded
    async def begin_step(
        self, step: DeploymentStep, commit: tuple[str, str] | None = None, *, revision: str | None = None
    ) -> None:
        """Record that this step begins, and what is known of the commit. A later attempt resumes at this step."""
        values = {} if commit is None else {"commit_subject": commit[0], "commit_author": commit[1]}
        if revision is not None:
            values["revision"] = revision
        async with self._sessions() as session, session.begin():
            deployment = await self._lock_deployment(session, step)
            await session.execute(
                update(Deployment)
                .where(Deployment.id == self._deployment_id)
                .values(**reach_step(deployment, step, utc_now()), **values)
                .execution_options(synchronize_session=False)
            )

    @_retry_while_leased
    @shielded
    async def add_release(self, built: BuildResult, revision: str, variables_id: int | None) -> int:
        """Record the artefact as a release, and return the release's ID. The deployment can no longer be canceled."""
        async with self._sessions() as session, session.begin():
            # Without release steps, an interrupted attempt can be repeated.
            step = DeploymentStep.RELEASE if built.workflow.release.steps else DeploymentStep.START
            deployment = await self._lock_deployment(session, step)
            query = select(Release.id).where(Release.deployment_id == deployment.id)
            if (before := await session.scalar(query)) is not None:
                return before
            now = utc_now()
            release = Release(
                environment_id=self._lease.environment_id,
                deployment_id=self._deployment_id,
                revision=revision,
                artefact=built.artefact,
                variables_id=variables_id,
                created_at=now,
                workflow=write_workflow(built.workflow),
            )
            session.add(release)
            reached = reach_step(deployment, step, now)
            await transition_deployment(session, deployment, DeploymentStatus.RUNNING, now, **reached)
            await session.flush()
            return release.id

    @_retry_while_leased
    @shielded
    async def skip_build(self) -> None:
        """Record that a rollback uses the artefact of an older release."""
        async with self._sessions() as session, session.begin():
            deployment = await self._lock_deployment(session, DeploymentStep.START)
            if deployment.status != DeploymentStatus.RUNNING:
                now = utc_now()
                reached = reach_step(deployment, DeploymentStep.START, now)
                await transition_deployment(session, deployment, DeploymentStatus.RUNNING, now, **reached)

    @_retry_while_leased
    @shielded
    async def make_live(self, release_id: int, *, is_rollback: bool) -> None:
        """Record the release as the live one. After this the deployment cannot be undone: the instances that serve
        requests follow this record."""
        environment_id = self._lease.environment_id
        async with self._sessions() as session, session.begin():
            deployment = await self._lock_deployment(session, DeploymentStep.SWITCH)
            live = await session.get(LiveRelease, environment_id)
            if live is None:
                live = LiveRelease(environment_id=environment_id)
                session.add(live)
            live.release_id = release_id
            live.deployment_id = self._deployment_id
            live.held = is_rollback
            live.since = now = utc_now()
            release = await session.get_one(Release, release_id)
            await mark_deployment(session, environment_id, self._deployment_id, release.revision, now)
            await session.execute(
                update(Deployment)
                .where(Deployment.id == self._deployment_id)
                .values(**reach_step(deployment, DeploymentStep.SWITCH, now))
                .execution_options(synchronize_session=False)
            )

    @_retry_while_leased
    @shielded
    async def succeed(self, line: str, retain: int | None) -> None:
        """Record the success, and remove releases beyond the newest `retain`; None retains all releases."""
        async with self._sessions() as session, session.begin():
            deployment = await self._lock_deployment(session, None)
            if deployment.status == DeploymentStatus.SUCCEEDED:
                return
            now = utc_now()
            add_log_line(session, deployment.id, line, now)
            await session.flush()
            await transition_deployment(session, deployment, DeploymentStatus.SUCCEEDED, now)
            if retain is not None:
                await _remove_old_releases(session, self._lease.environment_id, retain, now)

    @_retry_while_leased
    @shielded
    async def fail(self, reason: str) -> None:
        """Record the failure, with the reason as the last line of the log. Raises `DeploymentIsLive`."""
        async with self._sessions() as session, session.begin():
            deployment = await self._lock_deployment(session, None)
            if await read_live_deployment(session, self._lease.environment_id) == deployment.id:
                raise DeploymentIsLive(f"deployment {deployment.id} is live and cannot fail: {reason}")
            if deployment.status == DeploymentStatus.FAILED:
                return
            now = utc_now()
            add_log_line(session, deployment.id, reason, now)
            await session.flush()
            await transition_deployment(session, deployment, DeploymentStatus.FAILED, now)
            await session.execute(
                update(Release)
                .where(Release.deployment_id == deployment.id)
                .values(removed_at=now)
                .execution_options(synchronize_session=False)
            )

    async def _lock_deployment(self, session: AsyncSession, step: DeploymentStep | None) -> Deployment:
        doing = None if step is None else f"deployment {self._deployment_id}: {step.value}"
        await lock_lease(session, self._lease, doing=doing)
        return await session.get_one(Deployment, self._deployment_id)


async def _remove_old_releases(
    session: AsyncSession, environment_id: int, retain: int, now: datetime
) -> None:
    """Remove all old releases except the newest `retain` successful ones. The live release stays, however old it
    is."""
    mine = (Release.environment_id == environment_id, Release.removed_at.is_(None))
    newest = (
        select(Release.id)
        .join(Deployment, Deployment.id == Release.deployment_id)
        .where(*mine, Deployment.status == DeploymentStatus.SUCCEEDED)
        .order_by(Release.id.desc())
        .limit(retain)
    )
    retained = set((await session.execute(newest)).scalars())
    live = select(LiveRelease.release_id).where(LiveRelease.environment_id == environment_id)
    retained |= set((await session.execute(live)).scalars())
    await session.execute(
        update(Release)
        .where(*mine, Release.id.not_in(retained))
        .values(removed_at=now)
        .execution_options(synchronize_session=False)
    )


def write_workflow(document: WorkflowDocument) -> str:
    """Encode the workflow document in the form in which it is stored with a release."""
    return msgspec.json.encode(to_json(document)).decode()


def explain_unusable(reason: str) -> str:
    """Return the log line of a deployment that succeeds although this deployer cannot run its live release."""
    return f"The release is live, but it cannot run here: {reason}"


async def read_live_deployment(session: AsyncSession, environment_id: int) -> int | None:
    """Return the ID of the deployment that made the live release live; None if nothing is live."""
    query = (
        select(func.coalesce(LiveRelease.deployment_id, Release.deployment_id))
        .join(Release, Release.id == LiveRelease.release_id)
        .where(LiveRelease.environment_id == environment_id)
    )
    return (await session.execute(query)).scalar_one_or_none()
