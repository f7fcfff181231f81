"""Keeps one environment as it is wanted: what is live runs, and deployments are carried out one after the other."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from control_domain.sealing import CannotOpen
from control_domain.tables.variables import VariableSet
from control_domain.variables.operations import open_variables
from deployer.deployments.run_deployment import (
    DeployContext,
    read_release_workflow,
    run_deployment,
)
from deployer.drivers.interface import DeployFailed, Run, Tenancy
from deployer.environments.desired_states import DesiredState, ServedRelease
from deployer.leases import Lease, LeaseLost
from deployer.shield import end_tasks, shielded

logger = logging.getLogger(__name__)

# The live release may take long to be healthy, or never be: a deployment that waits may be what mends it.
_FIRST_KEEP_SECONDS = 5.0
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0

ReadWanted = Callable[[], Awaitable[DesiredState | None]]


class EnvironmentWorker:
    """One environment, under its lease."""

    def __init__(
        self, context: DeployContext, lease: Lease, tenancy: Tenancy, read_wanted: ReadWanted
    ) -> None:
        self.lease = lease
        self._context = context
        self.tenancy = tenancy
        self._read_wanted = read_wanted
        self._news = asyncio.Event()
        self._canceled = asyncio.Event()
        self._working_on: int | None = None
        self._working_since = 0.0
        self._told: DesiredState | None = None
        self._kept: tuple[ServedRelease | None, int, bool] | None = None
        """What was last brought about."""
        self.problem: str | None = None
        """Why what is live cannot be kept as it is wanted; what runs of it is left alone meanwhile."""
        self.is_idle = False
        """Whether nothing is wanted of it any more."""

    def tell(self, wanted: DesiredState | None, looked_at: float) -> None:
        """What was last seen, and when the look began, by the loop's clock. The keeper looks for itself before it does
        anything."""
        # A look from before the work was taken up may not have seen the deployment yet.
        is_later = looked_at > self._working_since
        active = None if wanted is None else wanted.deployment_id
        if self._working_on is not None and is_later and active != self._working_on:
            self._canceled.set()
        if wanted != self._told:
            self._told = wanted
            self._news.set()

    async def run(self) -> None:
        """Until nothing shall run here any more. Raises `LeaseLost`."""
        pause = _FIRST_PAUSE
        is_first = True
        while True:
            try:
                self._news.clear()
                wanted = await self._read_wanted()
                if wanted is None:
                    await self._context.driver.reconcile(self.tenancy, None, 0)
                    self.is_idle = True
                    return
                if is_first or wanted.deployment_id is None:
                    await self._keep(wanted)
                    is_first = False
                if wanted.deployment_id is not None:
                    await self._deploy(wanted, wanted.deployment_id)
                    continue
                await self._news.wait()
                pause = _FIRST_PAUSE
            except LeaseLost:
                raise
            except SQLAlchemyError as error:
                logger.warning("%s waits for the database: %s", self._name, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            except DeployFailed as error:
                # What is live cannot run here. A deployment does not wait for it: it may be what mends that.
                is_first = False
                self.problem = str(error)
                logger.warning("%s cannot be kept: %s", self._name, error)
                await self._wait_for_news(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            except Exception:
                # One environment's fault must not end the others; the next attempt begins anew.
                self.problem = f"{self._name} failed: the deployer's log says why"
                logger.exception("%s could not be brought to what is wanted", self._name)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _wait_for_news(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    @property
    def _name(self) -> str:
        return self.tenancy.hosts[0]

    async def _deploy(self, wanted: DesiredState, deployment_id: int) -> None:
        self._canceled.clear()
        self._working_on = deployment_id
        self._working_since = asyncio.get_running_loop().time()
        switch_lock = asyncio.Lock()
        work = asyncio.create_task(
            run_deployment(
                self._context, self.lease, wanted.tenancy, deployment_id, self._canceled, switch_lock
            )
        )
        news: asyncio.Task[Any] = work
        if _to_keep(wanted) != self._kept:
            # Asked for together with the deployment.
            self._news.set()
        try:
            while not work.done():
                news = asyncio.create_task(self._news.wait())
                await asyncio.wait({work, news}, return_when=asyncio.FIRST_COMPLETED)
                await end_tasks(news)
                if not work.done():
                    await self._keep_beside(switch_lock)
            await work
        finally:
            await end_tasks(work, news)
            self._working_on = None

    async def _keep_beside(self, switch_lock: asyncio.Lock) -> None:
        """What is wanted of the live release while another one is built. Once that is started it waits for its end."""
        self._news.clear()
        if switch_lock.locked():
            return
        async with switch_lock:
            try:
                wanted = await self._read_wanted()
                if wanted is not None:
                    await self._keep(wanted)
            except (SQLAlchemyError, DeployFailed) as error:
                # No reason to end the build. It is tried again behind it.
                logger.warning("%s is kept as it is for now: %s", self._name, error)

    async def _keep(self, wanted: DesiredState) -> None:
        """Bring what is live about; given up as soon as something else is wanted."""
        # What is to be ended need not be opened: it can hibernate while its key is missing.
        run = (
            await self._open(wanted, wanted.live) if wanted.live is not None and wanted.replicas > 0 else None
        )
        keeping = asyncio.create_task(
            self._context.driver.reconcile(
                wanted.tenancy, run, 0 if run is None else wanted.replicas, wakes=wanted.wakes
            )
        )
        news = asyncio.create_task(self._news.wait())
        limit = None if wanted.deployment_id is None else _FIRST_KEEP_SECONDS
        try:
            await asyncio.wait({keeping, news}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if keeping.done():
                await keeping
                self._kept, self.problem = _to_keep(wanted), None
        finally:
            await end_tasks(news, keeping)

    async def _open(self, wanted: DesiredState, live: ServedRelease) -> Run:
        """The live release as it is run. Raises `DeployFailed`: then what runs of it is left alone."""
        sealed = await self._read_sealed(live)
        try:
            variables = open_variables(self._context.keys, sealed, wanted.tenancy.public_id)
        except CannotOpen as error:
            raise DeployFailed(str(error)) from error
        return Run(live.deployment_id, live.artefact, read_release_workflow(live.workflow), variables)

    @shielded
    async def _read_sealed(self, live: ServedRelease) -> VariableSet | None:
        if live.variables_id is None:
            return None
        async with self._context.sessions() as session:
            return await session.get(VariableSet, live.variables_id)


def _to_keep(wanted: DesiredState) -> tuple[ServedRelease | None, int, bool]:
    """What of it is the live release's."""
    return wanted.live, wanted.replicas, wanted.wakes
