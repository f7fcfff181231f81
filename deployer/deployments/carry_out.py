"""Carries one deployment out: check-out, build, release steps, start, switch."""

import asyncio
import logging
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from control_api.database import Sessions
from control_api.deployments.tables import Release
from control_api.variables.sealing import SealingKeys
from control_api.workflows.document import WorkflowDocument, from_json
from control_api.workflows.faults import DocumentFault
from control_api.workflows.read_workflow import read_workflow
from deployer.checkout.failures import CheckOutFailed
from deployer.checkout.resolve_ref import resolve_ref
from deployer.deployments.live_release import DeploymentIsLive, explain_unusable
from deployer.deployments.log import DeploymentLog
from deployer.deployments.record import Record
from deployer.deployments.take_up import Job, take_up
from deployer.drivers.interface import Built, Driver, ReleaseUnusable, Run, Source, Tenancy, WorkFailed
from deployer.leases import Lease, LeaseLost
from deployer.log_lines.masking import Mask
from deployer.metrics import DeployerMetrics
from deployer.uncut import end_tasks
from pipeline_contracts.deploy_states import DeploymentStatus, DeploymentStep, ForbiddenMove

logger = logging.getLogger(__name__)

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Workshop:
    """What deployments are carried out with."""

    sessions: Sessions
    keys: SealingKeys
    driver: Driver
    builds: asyncio.Semaphore
    """How many may build at once."""
    most_log_bytes: int
    metrics: DeployerMetrics


async def carry_out(
    shop: Workshop,
    lease: Lease,
    tenancy: Tenancy,
    deployment_id: int,
    canceled: asyncio.Event,
    floor: asyncio.Lock,
) -> None:
    """Bring the environment's active deployment to its end, or on from where an earlier deployer was.

    Set `canceled` once it is: a build is ended then. Whoever has the `floor` changes what runs. Raises `LeaseLost`;
    what the database raises, and `DeploymentIsLive`, leave the deployment as it is, to be taken up again.
    """
    try:
        job = await take_up(shop.sessions, lease, shop.keys, deployment_id)
    except ForbiddenMove:
        # Canceled just now.
        return
    if job is None:
        return
    # With the most that there may be it takes half a second.
    mask = await asyncio.to_thread(Mask, job.variables.values())
    record = Record(shop.sessions, lease, deployment_id)
    log = DeploymentLog(shop.sessions, lease, deployment_id, mask, shop.most_log_bytes, record.note)
    try:
        async with log.flowing():
            await _Work(shop, lease, tenancy, job, log, record).run(canceled, floor)
        shop.metrics.finished["succeeded"] += 1
    except ForbiddenMove as error:
        # Canceled meanwhile: that stands in the log already.
        logger.info("deployment %d is %s", deployment_id, error.was)
        shop.metrics.finished["canceled"] += 1
    except WorkFailed as error:
        log.end_lines()
        await log.flush()
        shop.metrics.finished[await _record_failure(record, log.hide(str(error)))] += 1
    except (LeaseLost, SQLAlchemyError):
        raise
    except Exception:
        # It would fail again the same way; whoever waits for it is told.
        logger.exception("deployment %d failed", deployment_id)
        shop.metrics.failures += 1
        await record.fail("The deployer failed in the middle of this: its own log says why.")


async def _record_failure(record: Record, reason: str) -> str:
    """End the deployment, and return its status. A deployment whose release is already live succeeds: an active
    deployment would block the environment for a deployment that fixes the cause. The keeper reports the cause."""
    try:
        await record.fail(reason)
        return "failed"
    except DeploymentIsLive:
        await record.succeed(explain_unusable(reason), None)
        return "succeeded"


class _Work:
    """One attempt."""

    def __init__(
        self, shop: Workshop, lease: Lease, tenancy: Tenancy, job: Job, log: DeploymentLog, record: Record
    ) -> None:
        self._shop = shop
        self._lease = lease
        self._driver = shop.driver
        self._tenancy = tenancy
        self._job = job
        self._log = log
        self._record = record
        self._begun = time.monotonic()

    async def run(self, canceled: asyncio.Event, floor: asyncio.Lock) -> None:
        """All that is left to do. Raises `WorkFailed`."""
        job = self._job
        step = job.step
        if job.status is not DeploymentStatus.RUNNING:
            release_id, run = await self._prepare(canceled)
            step = DeploymentStep.START if job.is_rollback else DeploymentStep.RELEASE
        else:
            assert job.release is not None
            release_id, run = job.release.id, self._run_of(job.release)
        async with floor:
            await self._bring(release_id, run, step)

    async def _bring(self, release_id: int, run: Run, step: DeploymentStep | None) -> None:
        """From what is built to what is live."""
        job, record = self._job, self._record
        if step is DeploymentStep.RELEASE and run.workflow.release.steps:
            await self._driver.release(self._tenancy, run, self._log)
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
        pause, is_told = _FIRST_PAUSE, False
        while True:
            try:
                return await self._driver.switch(self._tenancy, run)
            except ReleaseUnusable:
                raise
            except WorkFailed as error:
                reason = str(error)
            except Exception:
                # What failed here would fail the deployment of a release that is live.
                logger.exception("deployment %d: the switch failed", self._job.deployment_id)
                self._shop.metrics.failures += 1
                reason = "The switch failed: the deployer's own log says why."
            if not is_told:
                await self._log.say(
                    f"{reason} The release is live: the switch is tried again until it succeeds."
                )
                is_told = True
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _prepare(self, canceled: asyncio.Event) -> tuple[int, Run]:
        """What is to be run, and under which release. Ends early where it was canceled."""
        job = self._job
        if job.is_rollback:
            assert job.release is not None
            await self._record.restored()
            return job.release.id, self._run_of(job.release)
        if job.release is not None:
            revision = job.release.revision
            built = Built(job.release.artefact, read_kept_workflow(job.release.workflow))
        else:
            revision, built = await _unless(canceled, self._build())
        await self._log.flush()
        release_id = await self._record.built(built, revision, job.variables_id)
        return release_id, Run(job.deployment_id, built.artefact, built.workflow, job.variables)

    async def _revision(self) -> str:
        job = self._job
        if job.revision is not None:
            await self._record.note(DeploymentStep.CHECK_OUT)
            return job.revision
        try:
            # As the driver marks what it starts: it ends what an earlier deployer has left.
            mark = f"{self._lease.holder}/git/{job.deployment_id}"
            revision = await resolve_ref(job.url, job.ref, mark=mark)
        except CheckOutFailed as error:
            raise WorkFailed(str(error)) from error
        if job.pushed is not None and revision == job.pushed.before:
            await self._log.say(
                f"The host's Git is behind its own webhook: {job.ref} is still {revision} there. Building "
                f"{job.pushed.revision}, of which the webhook has told."
            )
            revision = job.pushed.revision
        await self._record.note(DeploymentStep.CHECK_OUT, revision=revision)
        return revision

    async def _build(self) -> tuple[str, Built]:
        job, builds = self._job, self._shop.builds
        revision = await self._revision()
        workflow = None if job.workflow is None else _read(job.workflow)
        source = Source(job.deployment_id, job.url, job.ref, revision, workflow)
        if builds.locked():
            await self._log.say("Waits until another build is done.")
        async with builds:
            return revision, await self._driver.build(self._tenancy, source, job.variables, self._log)

    async def _start(self, run: Run) -> None:
        await self._record.note(DeploymentStep.START)
        await self._driver.start(self._tenancy, run, self._job.replicas, self._log)

    def _run_of(self, release: Release) -> Run:
        job = self._job
        return Run(job.deployment_id, release.artefact, read_kept_workflow(release.workflow), job.variables)


async def _unless(canceled: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """What the work gives; it is ended, and `ForbiddenMove` raised, as soon as the deployment is canceled."""
    task = asyncio.create_task(work)
    calling_off = asyncio.create_task(canceled.wait())
    try:
        await asyncio.wait({task, calling_off}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ForbiddenMove(DeploymentStatus.CANCELED, DeploymentStatus.RUNNING)
        return await task
    finally:
        await end_tasks(calling_off, task)


def _read(text: str) -> WorkflowDocument:
    try:
        return read_workflow(text)
    except DocumentFault as error:
        raise WorkFailed(f"The project's workflow document cannot be used: {error}") from error


def read_kept_workflow(text: str) -> WorkflowDocument:
    """Return the workflow document that was stored with a release. Raises `ReleaseUnusable`."""
    try:
        return from_json(msgspec.json.decode(text))
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ReleaseUnusable(
            f"The workflow document of the release cannot be read ({type(error).__name__}): deploy its revision again."
        ) from error
