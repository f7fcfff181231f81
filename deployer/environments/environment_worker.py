"""Brings one environment to its desired state: runs the live release, and runs deployments one after the other."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from control_domain.sealing import CannotOpen
from control_domain.tables.variables import VariableSet
from control_domain.variables.versions import open_variables
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

# A waiting deployment starts after this time: the live release may never become healthy, and the deployment may
# fix it.
_FIRST_RECONCILE_SECONDS = 5.0
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0

ReadDesired = Callable[[], Awaitable[DesiredState | None]]


class EnvironmentWorker:
    """Runs the live release and the deployments of one environment, while this deployer holds the environment's
    lease."""

    def __init__(
        self, context: DeployContext, lease: Lease, tenancy: Tenancy, read_desired: ReadDesired
    ) -> None:
        self.lease = lease
        self._context = context
        self.tenancy = tenancy
        self._read_desired = read_desired
        self._desired_changed = asyncio.Event()
        self._canceled = asyncio.Event()
        self._deployment_id: int | None = None
        """The ID of the running deployment. None if none runs."""
        self._deployment_began = 0.0
        self._last_seen: DesiredState | None = None
        self._reconciled: tuple[ServedRelease | None, int, bool] | None = None
        """The desired state of the live release that was reached last."""
        self.problem: str | None = None
        """Why the live release cannot be brought to its desired state. Its instances are left running. None if
        there is no problem."""
        self.is_idle = False
        """True if this deployer no longer has a desired state for the environment."""

    def update(self, desired: DesiredState | None, polled_at: float) -> None:
        """Wake the worker if the desired state has changed, and cancel the running deployment if the desired state
        no longer has it. `polled_at`: when the poll that read `desired` began, in the event loop's time. The
        worker reads the current state itself before it acts."""
        # A poll that began before the deployment did may not have seen the deployment.
        is_later = polled_at > self._deployment_began
        active = None if desired is None else desired.deployment_id
        if self._deployment_id is not None and is_later and active != self._deployment_id:
            self._canceled.set()
        if desired != self._last_seen:
            self._last_seen = desired
            self._desired_changed.set()

    async def run(self) -> None:
        """Run until the environment has no desired state on this deployer any more. Raises `LeaseLost`."""
        pause = _FIRST_PAUSE
        is_first = True
        while True:
            try:
                self._desired_changed.clear()
                desired = await self._read_desired()
                if desired is None:
                    await self._context.driver.reconcile(self.tenancy, None, 0)
                    self.is_idle = True
                    return
                if is_first or desired.deployment_id is None:
                    await self._reconcile(desired)
                    is_first = False
                if desired.deployment_id is not None:
                    await self._deploy(desired, desired.deployment_id)
                    continue
                await self._desired_changed.wait()
                pause = _FIRST_PAUSE
            except LeaseLost:
                raise
            except SQLAlchemyError as error:
                logger.warning("%s waits for the database: %s", self._name, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            except DeployFailed as error:
                # The live release cannot run on this deployer. Do not delay a deployment for it: the deployment
                # may be the fix.
                is_first = False
                self.problem = str(error)
                logger.warning("%s cannot be brought to its desired state: %s", self._name, error)
                await self._wait_for_change(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            except Exception:
                # A fault of one environment must not end the workers of the others.
                self.problem = f"{self._name} failed: the deployer's log says why"
                logger.exception("%s could not be brought to its desired state", self._name)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _wait_for_change(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._desired_changed.wait()

    @property
    def _name(self) -> str:
        return self.tenancy.hosts[0]

    async def _deploy(self, desired: DesiredState, deployment_id: int) -> None:
        self._canceled.clear()
        self._deployment_id = deployment_id
        self._deployment_began = asyncio.get_running_loop().time()
        switch_lock = asyncio.Lock()
        deploying = asyncio.create_task(
            run_deployment(
                self._context, self.lease, desired.tenancy, deployment_id, self._canceled, switch_lock
            )
        )
        change: asyncio.Task[Any] = deploying
        if _live_part(desired) != self._reconciled:
            # The change was requested together with the deployment.
            self._desired_changed.set()
        try:
            while not deploying.done():
                change = asyncio.create_task(self._desired_changed.wait())
                await asyncio.wait({deploying, change}, return_when=asyncio.FIRST_COMPLETED)
                await end_tasks(change)
                if not deploying.done():
                    await self._reconcile_during_build(switch_lock)
            await deploying
        finally:
            await end_tasks(deploying, change)
            self._deployment_id = None

    async def _reconcile_during_build(self, switch_lock: asyncio.Lock) -> None:
        """Reconcile the live release while the deployment builds another release. Does nothing once the deployment
        has the switch lock."""
        self._desired_changed.clear()
        if switch_lock.locked():
            return
        async with switch_lock:
            try:
                desired = await self._read_desired()
                if desired is not None:
                    await self._reconcile(desired)
            except (SQLAlchemyError, DeployFailed) as error:
                # The build continues, and the worker reconciles again when the deployment has ended.
                logger.warning("%s is not reconciled until its deployment ends: %s", self._name, error)

    async def _reconcile(self, desired: DesiredState) -> None:
        """Bring the live release to the desired state. Stop as soon as the desired state changes."""
        # An environment can hibernate even if its variables cannot be decrypted.
        run = (
            await self._open_run(desired, desired.live)
            if desired.live is not None and desired.replicas > 0
            else None
        )
        reconciling = asyncio.create_task(
            self._context.driver.reconcile(
                desired.tenancy, run, 0 if run is None else desired.replicas, wakes=desired.wakes
            )
        )
        change = asyncio.create_task(self._desired_changed.wait())
        limit = None if desired.deployment_id is None else _FIRST_RECONCILE_SECONDS
        try:
            await asyncio.wait({reconciling, change}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if reconciling.done():
                await reconciling
                self._reconciled, self.problem = _live_part(desired), None
        finally:
            await end_tasks(change, reconciling)

    async def _open_run(self, desired: DesiredState, live: ServedRelease) -> Run:
        """Return the run of the live release, with its variables. Raises `DeployFailed`."""
        sealed = await self._read_sealed(live)
        try:
            variables = open_variables(self._context.keys, sealed, desired.tenancy.public_id)
        except CannotOpen as error:
            raise DeployFailed(str(error)) from error
        telemetry = await self._context.telemetry.open(desired.tenancy.public_id)
        return Run(
            live.deployment_id,
            live.artefact,
            read_release_workflow(live.workflow),
            variables,
            telemetry,
            live.revision,
        )

    @shielded
    async def _read_sealed(self, live: ServedRelease) -> VariableSet | None:
        if live.variables_id is None:
            return None
        async with self._context.sessions() as session:
            return await session.get(VariableSet, live.variables_id)


def _live_part(desired: DesiredState) -> tuple[ServedRelease | None, int, bool]:
    """Return the live release, its number of instances, and whether a request wakes it."""
    return desired.live, desired.replicas, desired.wakes
