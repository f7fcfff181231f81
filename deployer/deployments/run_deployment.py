"""Runs one deployment: check-out, build, release steps, start, switch."""

import asyncio
import logging
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from control_domain.database.engine import Sessions
from control_domain.documents.faults import DocumentFault
from control_domain.sealing import SealingKeys
from control_domain.tables.deployments import Release
from control_domain.workflows.document import WorkflowDocument, from_json
from control_domain.workflows.read_workflow import read_workflow
from deployer.application_telemetry import ApplicationTelemetry
from deployer.checkout.failures import CheckOutFailed
from deployer.checkout.resolve_ref import resolve_ref
from deployer.deployments.begin_attempt import begin_attempt
from deployer.deployments.log import DeploymentLog
from deployer.deployments.read_job import Job
from deployer.deployments.record import DeploymentIsLive, DeploymentRecord, explain_unusable
from deployer.drivers.interface import (
    BuildResult,
    DeployFailed,
    Driver,
    ReleaseUnusable,
    Run,
    Source,
    Tenancy,
)
from deployer.leases import Lease, LeaseLost
from deployer.log_lines.masking import Mask
from deployer.metrics import DeployerMetrics
from deployer.shield import end_tasks
from deployer.telemetry_variables import TelemetryVariables
from pipeline_contracts.deploy_states import DeploymentStatus, DeploymentStep, ForbiddenTransition

logger = logging.getLogger(__name__)

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DeployContext:
    """The objects that every deployment run of a deployer shares."""

    sessions: Sessions
    keys: SealingKeys
    driver: Driver
    builds: asyncio.Semaphore
    """Limits the number of simultaneous builds."""
    max_log_bytes: int
    metrics: DeployerMetrics
    telemetry: ApplicationTelemetry


async def run_deployment(
    context: DeployContext,
    lease: Lease,
    tenancy: Tenancy,
    deployment_id: int,
    canceled: asyncio.Event,
    switch_lock: asyncio.Lock,
) -> None:
    """Run the environment's active deployment to its end. Start at the step that an earlier deployer process has
    reached.

    `canceled` ends a build. The switch lock is held from the release steps on. Raises `LeaseLost`, database errors and
    `DeploymentIsLive`: the deployment is then unchanged, and another attempt follows.
    """
    try:
        job = await begin_attempt(context.sessions, lease, context.keys, deployment_id)
    except ForbiddenTransition:
        # The deployment was canceled after the desired state was read.
        return
    if job is None:
        return
    # Do this in a thread: with the maximum number of variables it takes half a second.
    telemetry = await context.telemetry.open(tenancy.public_id)
    secrets = [] if telemetry is None else [telemetry.key.secret]
    mask = await asyncio.to_thread(Mask, [*job.variables.values(), *secrets])
    record = DeploymentRecord(context.sessions, lease, deployment_id)
    log = DeploymentLog(
        context.sessions, lease, deployment_id, mask, context.max_log_bytes, record.begin_step
    )
    try:
        async with log.flushing():
            await _DeploymentRun(context, lease, tenancy, job, telemetry, log, record).run(
                canceled, switch_lock
            )
        context.metrics.finished["succeeded"] += 1
    except ForbiddenTransition as error:
        # The deployment was canceled meanwhile. The cancellation has written its own line to the log.
        logger.info("deployment %d is %s", deployment_id, error.current)
        context.metrics.finished["canceled"] += 1
    except DeployFailed as error:
        log.end_lines()
        await log.flush()
        context.metrics.finished[await _record_failure(record, log.hide(str(error)))] += 1
    except (LeaseLost, SQLAlchemyError):
        raise
    except Exception:
        # Another attempt would fail in the same way.
        logger.exception("deployment %d failed", deployment_id)
        context.metrics.failures += 1
        await record.fail("The deployer failed in the middle of this: its own log says why.")


async def _record_failure(record: DeploymentRecord, reason: str) -> str:
    """Record that the deployment failed, and return its status. If its release is already live, the deployment succeeds
    instead: an active deployment would block the next one, which may fix the cause. The environment's worker reports
    the cause."""
    try:
        await record.fail(reason)
        return "failed"
    except DeploymentIsLive:
        await record.succeed(explain_unusable(reason), None)
        return "succeeded"


class _DeploymentRun:
    """One attempt at a deployment."""

    def __init__(
        self,
        context: DeployContext,
        lease: Lease,
        tenancy: Tenancy,
        job: Job,
        telemetry: TelemetryVariables | None,
        log: DeploymentLog,
        record: DeploymentRecord,
    ) -> None:
        self._context = context
        self._lease = lease
        self._driver = context.driver
        self._tenancy = tenancy
        self._job = job
        self._telemetry = telemetry
        self._log = log
        self._record = record
        self._begun = time.monotonic()

    async def run(self, canceled: asyncio.Event, switch_lock: asyncio.Lock) -> None:
        """Run the steps that remain. Raises `DeployFailed`."""
        job = self._job
        step = job.step
        if job.status is not DeploymentStatus.RUNNING:
            release_id, run = await self._prepare(canceled)
            step = DeploymentStep.START if job.is_rollback else DeploymentStep.RELEASE
        else:
            assert job.release is not None
            release_id, run = job.release.id, self._make_run(job.release)
        async with switch_lock:
            await self._bring_live(release_id, run, step)

    async def _bring_live(self, release_id: int, run: Run, step: DeploymentStep | None) -> None:
        job, record = self._job, self._record
        if step is DeploymentStep.RELEASE and run.workflow.release.steps:
            await self._driver.run_release_steps(self._tenancy, run, self._log)
        if step is not DeploymentStep.SWITCH:
            await self._start(run)
            await self._log.flush()
            await record.make_live(release_id, is_rollback=job.is_rollback)
        await self._switch(run)
        await self._log.flush()
        took = time.monotonic() - self._begun
        await record.succeed(f"Live after {took:.1f} s at {self._tenancy.address}.", run.workflow.retain)

    async def _switch(self, run: Run) -> None:
        """Switch the traffic to the live release, and retry until this succeeds: a live release cannot be undone.
        Raises `ReleaseUnusable` if no retry can succeed."""
        pause, is_logged = _FIRST_PAUSE, False
        while True:
            try:
                return await self._driver.switch(self._tenancy, run)
            except ReleaseUnusable:
                raise
            except DeployFailed as error:
                reason = str(error)
            except Exception:
                # If this exception were raised, the deployment of a live release would fail.
                logger.exception("deployment %d: the switch failed", self._job.deployment_id)
                self._context.metrics.failures += 1
                reason = "The switch failed: the deployer's own log says why."
            if not is_logged:
                await self._log.write_line(
                    f"{reason} The release is live: the switch is tried again until it succeeds."
                )
                is_logged = True
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _prepare(self, canceled: asyncio.Event) -> tuple[int, Run]:
        """Return the ID of the release, and the `Run` that describes it. Build the release if necessary. Raises
        `ForbiddenTransition` if the deployment was canceled."""
        job = self._job
        if job.is_rollback:
            assert job.release is not None
            await self._record.skip_build()
            return job.release.id, self._make_run(job.release)
        if job.release is not None:
            revision = job.release.revision
            built = BuildResult(job.release.artefact, read_release_workflow(job.release.workflow))
        else:
            revision, built = await _run_unless_canceled(canceled, self._build())
        await self._log.flush()
        release_id = await self._record.add_release(built, revision, job.variables_id)
        return release_id, Run(
            job.deployment_id, built.artefact, built.workflow, job.variables, self._telemetry, revision
        )

    async def _resolve_revision(self) -> str:
        job = self._job
        if job.revision is not None:
            await self._record.begin_step(DeploymentStep.CHECK_OUT)
            return job.revision
        try:
            # The mark begins like those of the driver's own processes. The driver ends marked processes that an earlier
            # deployer process has left.
            mark = f"{self._lease.holder}/git/{job.deployment_id}"
            revision = await resolve_ref(job.url, job.ref, mark=mark)
        except CheckOutFailed as error:
            raise DeployFailed(str(error)) from error
        if job.pushed is not None and revision == job.pushed.before:
            await self._log.write_line(
                f"The Git host is behind its own webhook: {job.ref} is still {revision} there. Building "
                f"{job.pushed.revision}, which the webhook announced."
            )
            revision = job.pushed.revision
        await self._record.begin_step(DeploymentStep.CHECK_OUT, revision=revision)
        return revision

    async def _build(self) -> tuple[str, BuildResult]:
        job, builds = self._job, self._context.builds
        revision = await self._resolve_revision()
        workflow = None if job.workflow is None else _read_project_workflow(job.workflow)
        source = Source(job.deployment_id, job.url, job.ref, revision, workflow)
        if builds.locked():
            await self._log.write_line("Waits until another build is done.")
        async with builds:
            return revision, await self._driver.build(self._tenancy, source, job.variables, self._log)

    async def _start(self, run: Run) -> None:
        await self._record.begin_step(DeploymentStep.START)
        await self._driver.start(self._tenancy, run, self._job.replicas, self._log)

    def _make_run(self, release: Release) -> Run:
        job = self._job
        return Run(
            job.deployment_id,
            release.artefact,
            read_release_workflow(release.workflow),
            job.variables,
            self._telemetry,
            release.revision,
        )


async def _run_unless_canceled(canceled: asyncio.Event, coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the coroutine's result; cancel it and raise `ForbiddenTransition` as soon as the deployment is
    canceled."""
    task = asyncio.create_task(coroutine)
    cancellation = asyncio.create_task(canceled.wait())
    try:
        await asyncio.wait({task, cancellation}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ForbiddenTransition(DeploymentStatus.CANCELED, DeploymentStatus.RUNNING)
        return await task
    finally:
        await end_tasks(cancellation, task)


def _read_project_workflow(text: str) -> WorkflowDocument:
    try:
        return read_workflow(text)
    except DocumentFault as error:
        raise DeployFailed(f"The project's workflow document cannot be used: {error}") from error


def read_release_workflow(text: str) -> WorkflowDocument:
    """Return the workflow document that was stored with a release. Raises `ReleaseUnusable`."""
    try:
        return from_json(msgspec.json.decode(text))
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ReleaseUnusable(
            f"The workflow document of the release cannot be read ({type(error).__name__}): deploy its revision again."
        ) from error
