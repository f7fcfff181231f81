"""Runs a deployer: polls the desired states, and runs a worker for each environment that the deployer has leased."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from control_domain.audit import Actor
from control_domain.database.changes import Changes
from control_domain.environments.operations import wake_environment
from deployer.database_guard import DatabaseGuard
from deployer.database_memory import DatabaseRefused
from deployer.deployments.commit_lookups import CommitLookups
from deployer.deployments.log import utc_now
from deployer.deployments.run_deployment import DeployContext
from deployer.describe_failure import describe_database_error, describe_problems, describe_untaken
from deployer.drivers.interface import InstanceStatus
from deployer.environments.desired_states import DesiredState, Hostnames, read_desired_states
from deployer.environments.environment_worker import EnvironmentWorker
from deployer.environments.write_instances import write_instances
from deployer.identity import Identity
from deployer.leases import (
    LEASE_SECONDS,
    RENEW_SECONDS,
    LeaseLost,
    end_leases,
    extend_held_leases,
    is_lost,
    renew_leases,
    retake_lease,
    shorten_leases,
    take_lease,
)
from deployer.shield import end_tasks, shielded
from deployer.sweeper import Sweeper

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.4
_CRASH_CHECK_SECONDS = 15.0


class Deployer:
    """Runs all environments of one deployer."""

    def __init__(
        self,
        context: DeployContext,
        identity: Identity,
        names: Hostnames,
        guard: DatabaseGuard,
        *,
        releases_leases: bool,
    ) -> None:
        """`releases_leases`: end the leases when this deployer stops, so that other deployers can take the
        environments at once."""
        self._guard = guard
        self._context = context
        self._identity = identity
        self._names = names
        self._sweeper = Sweeper(context, identity.id, guard)
        self._releases_leases = releases_leases
        self._workers: dict[int, EnvironmentWorker] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._lost: set[int] = set()
        """Environments whose lease this deployer has lost, and whose processes it is ending."""
        self._unwritten: dict[int, Sequence[InstanceStatus]] = {}
        """The instances that have changed since the last write, by environment."""
        self._crashing: dict[int, Sequence[InstanceStatus]] = {}
        """The last written instances of each environment in which a process crashed lately."""
        self._crashes_checked_at = float("-inf")
        self._waking: set[int] = set()
        self._poll_now = asyncio.Event()
        self._changes = Changes(context.sessions)
        self._renewed_at = float("-inf")
        self._untaken: set[int] = set()
        self._failing: str | None = "has not read the database yet"
        self.missing_confinement: str | None = None
        """The kinds of confinement that this machine lacks, as text. None if it lacks none."""
        self.describe_stopped_output: Callable[[], str | None] = lambda: None
        """A function that returns which output of applications is not stored as logs, and why. None if all of it is
        stored."""

    @property
    def failing(self) -> str | None:
        """Return why the deployer does nothing, or leaves applications unchanged; None if everything works."""
        if self._failing is not None:
            return self._failing
        if self._untaken:
            return describe_untaken(len(self._untaken))
        problems = [worker.problem for worker in self._workers.values() if worker.problem is not None]
        return describe_problems(problems, len(self._workers)) if problems else None

    def report(self, environment_id: int, instances: Sequence[InstanceStatus]) -> None:
        """Receive the instances of an environment from the driver."""
        self._unwritten[environment_id] = instances
        self._context.metrics.instances[environment_id] = Counter(instance.state for instance in instances)
        self._poll_now.set()

    def wake(self, environment_id: int) -> None:
        """Wake a hibernated environment, because the proxy has a request for it."""
        self._waking.add(environment_id)
        self._poll_now.set()

    async def run(self) -> None:
        """Poll the desired states until cancelled."""
        while True:
            is_woken = self._poll_now.is_set()
            self._poll_now.clear()
            try:
                if self._is_renewal_due():
                    # One poll handles all changes that were made before it.
                    self._changes.repeat()
                if self._changes.is_due() or is_woken or self._has_work():
                    await self._poll()
                self._failing = None
            except DatabaseRefused as error:
                if self._failing != str(error):
                    logger.error("%s", error)
                self._failing = str(error)
            except SQLAlchemyError as error:
                if self._failing != (failing := describe_database_error(error)):
                    logger.warning("the desired states cannot be read from the database: %s", error)
                self._failing = failing
            except Exception:
                # A fault in one row must not end the workers of all environments.
                self._failing = "failed, see its log"
                self._context.metrics.failures += 1
                logger.exception("the desired states could not be processed")
            try:
                async with asyncio.timeout(_POLL_SECONDS):
                    await self._poll_now.wait()
                # Wait, so that frequent changes are written together.
                await asyncio.sleep(0.05)
            except TimeoutError:
                continue

    async def look_up_commits(self) -> None:
        """Look up the commits of deployments that await approval, until cancelled."""
        await CommitLookups(self._context.sessions, self._identity.id, self._guard.check).run()

    async def stop(self) -> None:
        """Stop all workers. The driver keeps the instances."""
        sweeping = () if self._sweeper.task is None else (self._sweeper.task,)
        await end_tasks(*self._tasks.values(), *sweeping)
        if not self._releases_leases:
            return
        try:
            await end_leases(self._context.sessions, [worker.lease for worker in self._workers.values()])
        except SQLAlchemyError as error:
            logger.warning("the leases could not be released and expire in %.0f s: %s", LEASE_SECONDS, error)

    def _has_work(self) -> bool:
        """Return True if a poll has something to do although nothing has changed in the database."""
        return self._failing is not None or bool(self._untaken) or self._sweeper.is_requested

    def _is_renewal_due(self) -> bool:
        return asyncio.get_running_loop().time() - self._renewed_at >= RENEW_SECONDS

    async def _poll(self) -> None:
        sessions = self._context.sessions
        loop_time = asyncio.get_running_loop().time()
        is_due = self._is_renewal_due()
        try:
            await self._guard.check()
        except DatabaseRefused:
            if is_due:
                await self._extend_held_leases()
                self._renewed_at = loop_time
            raise
        if is_due:
            # Renew the leases first, so that no other failure can cost them. The next poll repeats a failed renewal.
            await self._renew_leases()
            self._renewed_at = loop_time
        await self._wake_environments()
        states = await read_desired_states(sessions, self._identity.id, self._names)
        await self._guard.remember_live(states)
        self._untaken.clear()
        # Write the instances before ended workers are forgotten, because their last instances must be written too.
        await self._write_instances()
        await self._forget_ended_workers()
        for number, desired in states.by_environment.items():
            if number not in self._workers:
                await self._take_environment(number, desired)
        for number, worker in self._workers.items():
            worker.update(states.by_environment.get(number), loop_time)
        self._sweeper.start_if_due(loop_time)

    async def _take_environment(self, number: int, desired: DesiredState) -> None:
        address = desired.tenancy.address
        lease = await take_lease(self._context.sessions, self._identity, number, address)
        if lease is None:
            # `states` leaves out environments of other deployers. So a process with this deployer's ID has the lease,
            # or the environment was removed a moment ago.
            self._untaken.add(number)
            return
        worker = EnvironmentWorker(self._context, lease, desired.tenancy, partial(self._read_one, number))
        self._workers[number] = worker
        self._tasks[number] = asyncio.create_task(self._run(worker), name=desired.name)

    async def _read_one(self, number: int) -> DesiredState | None:
        check = partial(self._guard.check_in, environment_id=number)
        states = await read_desired_states(
            self._context.sessions, self._identity.id, self._names, number, check
        )
        if number in states.leased_elsewhere:
            raise LeaseLost(f"environment {number} has another deployer")
        self._sweeper.is_requested = True
        return states.by_environment.get(number)

    async def _run(self, worker: EnvironmentWorker) -> None:
        try:
            await worker.run()
        except LeaseLost as error:
            logger.warning("%s", error)
            await self._end_instances(worker)
        finally:
            self._poll_now.set()

    async def _give_up(self, worker: EnvironmentWorker, running: "asyncio.Task[None]") -> None:
        await end_tasks(running)
        await self._end_instances(worker)
        self._poll_now.set()

    async def _end_instances(self, worker: EnvironmentWorker) -> None:
        """End the instances of an environment that another deployer has, or that was removed. First check that this is
        the deployer's own database."""
        self._lost.add(worker.lease.environment_id)
        check = partial(self._guard.check_in, environment_id=worker.lease.environment_id)
        while True:
            try:
                if not await is_lost(self._context.sessions, worker.lease, check):
                    # A restored backup has another fence. The next poll takes the lease of the environment again.
                    return
                break
            except DatabaseRefused as error:
                logger.warning("%s: instances are left running: %s", worker.tenancy.hosts[0], error)
                return
            except SQLAlchemyError:
                await asyncio.sleep(_POLL_SECONDS)
        logger.warning("%s: instances on this machine are ended", worker.tenancy.hosts[0])
        await self._context.driver.reconcile(worker.tenancy, None, 0)

    async def _forget_ended_workers(self) -> None:
        for number, task in list(self._tasks.items()):
            if task.done():
                await end_tasks(task)
                del self._tasks[number], self._workers[number]
                self._lost.discard(number)
                self._unwritten.pop(number, None)
                self._crashing.pop(number, None)
                # If a sweep ran before the processes of a removed environment had ended, its route still exists.
                self._sweeper.is_requested = True

    async def _renew_leases(self) -> None:
        workers = {
            number: worker
            for number, worker in self._workers.items()
            if number not in self._lost and not worker.is_idle
        }
        sessions = self._context.sessions
        for number in await renew_leases(sessions, [worker.lease for worker in workers.values()]):
            worker = workers[number]
            if await retake_lease(sessions, self._identity, worker.lease, worker.tenancy.address):
                logger.warning("the lease of environment %d was missing and is taken again", number)
                continue
            logger.warning("the lease of environment %d is lost", number)
            if number not in self._lost:
                self._lost.add(number)
                self._tasks[number] = asyncio.create_task(self._give_up(worker, self._tasks[number]))
        await shorten_leases(sessions)

    async def _extend_held_leases(self) -> None:
        """Extend the leases while the deployer refuses the database: another deployer would have neither the artefacts
        nor the homes of the environments."""
        try:
            leases = [worker.lease for worker in self._workers.values()]
            await extend_held_leases(self._context.sessions, self._identity, leases)
        except SQLAlchemyError as error:
            # The schema of another version may not have these columns.
            logger.warning("the leases are not renewed: %s", error)

    async def _write_instances(self) -> None:
        changed, self._unwritten = self._unwritten, {}
        loop_time = asyncio.get_running_loop().time()
        if loop_time - self._crashes_checked_at >= _CRASH_CHECK_SECONDS:
            self._crashes_checked_at = loop_time
            changed = {**self._crashing, **changed}
        for number, instances in changed.items():
            worker = self._workers.get(number)
            if worker is None:
                continue
            try:
                if await write_instances(self._context.sessions, worker.lease, instances, utc_now()):
                    self._crashing[number] = instances
                else:
                    self._crashing.pop(number, None)
            except (LeaseLost, IntegrityError) as error:
                # The environment was removed, or another deployer has it by now.
                logger.info("instances of environment %d are not written: %s", number, error)
            except SQLAlchemyError:
                self._unwritten = {**changed, **self._unwritten}
                raise

    @shielded
    async def _wake_environments(self) -> None:
        for number in list(self._waking):
            async with self._context.sessions() as session, session.begin():
                await wake_environment(session, number, Actor("the first request"), utc_now())
            self._waking.discard(number)


@asynccontextmanager
async def running_deployer(deployer: Deployer) -> AsyncIterator[Deployer]:
    """Run the deployer within the context."""
    task = asyncio.create_task(deployer.run(), name="deployer")
    looking_up = asyncio.create_task(deployer.look_up_commits(), name="commits")
    try:
        yield deployer
    finally:
        await end_tasks(task, looking_up)
        await deployer.stop()
