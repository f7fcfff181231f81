"""A deployer at work: looks into the database again and again, and has a keeper for each environment that it leases."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from control_domain.audit import Actor
from control_domain.environments.operations import wake_environment
from deployer.database_guard import DatabaseGuard, DatabaseRefused
from deployer.database_memory import DatabaseRefused
from deployer.deployments.commit_lookups import CommitLookups
from deployer.deployments.log import utc_now
from deployer.deployments.run_deployment import DeployContext
from deployer.describe_failure import describe_database_error, describe_problems, describe_untaken
from deployer.drivers.interface import InstanceStatus
from deployer.environments.desired_states import DesiredState, read_desired_states, read_retained
from deployer.environments.environment_worker import EnvironmentWorker
from deployer.environments.names import Hostnames
from deployer.environments.write_instances import write_instances
from deployer.identity import Identity
from deployer.leases import (
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

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.4
_SWEEP_SECONDS = 60.0
_SWEEP_AGAIN_SECONDS = 2.0


class Deployer:
    """All environments of one deployer."""

    def __init__(
        self,
        context: DeployContext,
        identity: Identity,
        names: Hostnames,
        guard: DatabaseGuard,
        *,
        releases_leases: bool,
    ) -> None:
        """`gives_up`: others may take its environments as soon as it ends."""
        self._guard = guard
        self._context = context
        self._identity = identity
        self._names = names
        self._gives_up = releases_leases
        self._keepers: dict[int, EnvironmentWorker] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._leaving: set[int] = set()
        """Environments whose lease is lost, and whose processes are being ended."""
        self._changed: dict[int, Sequence[InstanceStatus]] = {}
        self._waking: set[int] = set()
        self._news = asyncio.Event()
        self._renewed_at = self._swept_at = float("-inf")
        self._finished = False
        self._sweeping: asyncio.Task[None] | None = None
        self._untaken: set[int] = set()
        self._failing: str | None = "has not looked yet"
        self.missing_confinement: str | None = None
        """What does not confine applications on this machine. None: all of it does."""

    @property
    def failing(self) -> str | None:
        """Why it does nothing, or leaves applications as they are; None: it is well."""
        if self._failing is not None:
            return self._failing
        if self._untaken:
            return describe_untaken(len(self._untaken))
        problems = [keeper.problem for keeper in self._keepers.values() if keeper.problem is not None]
        return describe_problems(problems, len(self._keepers)) if problems else None

    def report(self, environment_id: int, instances: Sequence[InstanceStatus]) -> None:
        """Takes the driver's word of what runs."""
        self._changed[environment_id] = instances
        self._context.metrics.instances[environment_id] = Counter(one.state for one in instances)
        self._news.set()

    def wake(self, environment_id: int) -> None:
        """Somebody asks a sleeping environment something."""
        self._waking.add(environment_id)
        self._news.set()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            self._news.clear()
            try:
                await self._look()
                self._failing = None
            except DatabaseRefused as error:
                if self._failing != str(error):
                    logger.error("%s", error)
                self._failing = str(error)
            except SQLAlchemyError as error:
                if self._failing != (failing := describe_database_error(error)):
                    logger.warning("the database cannot be asked what is wanted: %s", error)
                self._failing = failing
            except Exception:
                # One bad row must not end all environments.
                self._failing = "failed, see its log"
                self._context.metrics.failures += 1
                logger.exception("what is wanted could not be looked at")
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._news.wait()
                # What changes often is written together.
                await asyncio.sleep(0.05)
            except TimeoutError:
                continue

    async def look_up_commits(self) -> None:
        """Look up what second persons are to approve, until it is cancelled."""
        await CommitLookups(self._context.sessions, self._identity.id, self._guard.check).run()

    async def end(self) -> None:
        """End all work; what runs stays to the driver."""
        sweeping = () if self._sweeping is None else (self._sweeping,)
        await end_tasks(*self._tasks.values(), *sweeping)
        if not self._gives_up:
            return
        try:
            await end_leases(self._context.sessions, [keeper.lease for keeper in self._keepers.values()])
        except SQLAlchemyError as error:
            logger.warning("the leases run out by themselves: %s", error)

    async def _look(self) -> None:
        sessions = self._context.sessions
        loop_time = asyncio.get_running_loop().time()
        is_due = loop_time - self._renewed_at >= RENEW_SECONDS
        try:
            await self._guard.check()
        except DatabaseRefused:
            if is_due:
                await self._hold()
                self._renewed_at = loop_time
            raise
        if is_due:
            # First, and again with the next look where it fails: nothing else that fails may cost the leases.
            await self._renew()
            self._renewed_at = loop_time
        await self._wake_asked()
        overview = await read_desired_states(sessions, self._identity.id, self._names)
        await self._guard.remember_live(overview)
        self._untaken.clear()
        # What the keepers have told last is written before they go.
        await self._write_instances()
        await self._forget_ended()
        for number, wanted in overview.wanted.items():
            if number not in self._keepers:
                await self._take(number, wanted)
        for number, keeper in self._keepers.items():
            keeper.tell(overview.wanted.get(number), loop_time)
        if (loop_time - self._swept_at >= _SWEEP_SECONDS or self._finished) and not self._is_sweeping():
            self._swept_at, self._finished = loop_time, False
            self._sweeping = asyncio.create_task(self._sweep(), name="sweep")

    def _is_sweeping(self) -> bool:
        return self._sweeping is not None and not self._sweeping.done()

    async def _sweep(self) -> None:
        """Beside the looks: what has to be ended may take its time for it."""
        try:
            read = partial(read_retained, self._context.sessions, self._identity.id, self._guard.check_in)
            if await self._context.driver.sweep(read):
                again_at = asyncio.get_running_loop().time() + _SWEEP_AGAIN_SECONDS
                self._swept_at = again_at - _SWEEP_SECONDS
        except (SQLAlchemyError, DatabaseRefused) as error:
            logger.warning("nothing is swept: %s", error)
        except Exception:
            self._context.metrics.failures += 1
            logger.exception("what is left over could not be removed")

    async def _take(self, number: int, wanted: DesiredState) -> None:
        address = wanted.tenancy.address
        lease = await take_lease(self._context.sessions, self._identity, number, address)
        if lease is None:
            # The overview names what others have: this one is held under our own ID, or was removed just now.
            self._untaken.add(number)
            return
        keeper = EnvironmentWorker(self._context, lease, wanted.tenancy, partial(self._read_one, number))
        self._keepers[number] = keeper
        self._tasks[number] = asyncio.create_task(self._run(keeper), name=wanted.name)

    async def _read_one(self, number: int) -> DesiredState | None:
        check = partial(self._guard.check_in, environment_id=number)
        overview = await read_desired_states(
            self._context.sessions, self._identity.id, self._names, number, check
        )
        if number in overview.elsewhere:
            raise LeaseLost(f"environment {number} has another deployer")
        self._finished = True
        return overview.wanted.get(number)

    async def _run(self, keeper: EnvironmentWorker) -> None:
        try:
            await keeper.run()
        except LeaseLost as error:
            logger.warning("%s", error)
            await self._end_what_runs(keeper)
        finally:
            self._news.set()

    async def _leave(self, keeper: EnvironmentWorker, keeping: "asyncio.Task[None]") -> None:
        await end_tasks(keeping)
        await self._end_what_runs(keeper)

    async def _end_what_runs(self, keeper: EnvironmentWorker) -> None:
        """Another deployer has the environment, or it was removed: but another database would say so, too."""
        self._leaving.add(keeper.lease.environment_id)
        check = partial(self._guard.check_in, environment_id=keeper.lease.environment_id)
        while True:
            try:
                if not await is_lost(self._context.sessions, keeper.lease, check):
                    # A restored backup has a different fence: the next iteration takes the environment again.
                    return
                break
            except DatabaseRefused as error:
                logger.warning("%s is left as it runs: %s", keeper.tenancy.hosts[0], error)
                return
            except SQLAlchemyError:
                await asyncio.sleep(_LOOK_SECONDS)
        logger.warning("%s: what runs of it here is ended", keeper.tenancy.hosts[0])
        await self._context.driver.reconcile(keeper.tenancy, None, 0)

    async def _forget_ended(self) -> None:
        for number, task in list(self._tasks.items()):
            if task.done():
                await end_tasks(task)
                del self._tasks[number], self._keepers[number]
                self._leaving.discard(number)
                self._changed.pop(number, None)
                # The end of a removed one leaves a route behind where it was swept before.
                self._finished = True

    async def _renew(self) -> None:
        keepers = {
            number: keeper
            for number, keeper in self._keepers.items()
            if number not in self._leaving and not keeper.is_idle
        }
        sessions = self._context.sessions
        for number in await renew_leases(sessions, [keeper.lease for keeper in keepers.values()]):
            keeper = keepers[number]
            if await retake_lease(sessions, self._identity, keeper.lease, keeper.tenancy.address):
                logger.warning("the lease of environment %d was missing: it is taken again", number)
                continue
            logger.warning("the lease of environment %d is lost", number)
            if number not in self._leaving:
                self._leaving.add(number)
                self._tasks[number] = asyncio.create_task(self._leave(keeper, self._tasks[number]))
        await shorten_leases(sessions)

    async def _hold(self) -> None:
        """Renew leases while the database is refused: another deployer would have neither artefacts nor homes."""
        try:
            leases = [keeper.lease for keeper in self._keepers.values()]
            await extend_held_leases(self._context.sessions, self._identity, leases)
        except SQLAlchemyError as error:
            # The schema of another version may lack the columns.
            logger.warning("the leases are not renewed: %s", error)

    async def _write_instances(self) -> None:
        changed, self._changed = self._changed, {}
        for number, instances in changed.items():
            keeper = self._keepers.get(number)
            if keeper is None:
                continue
            try:
                await write_instances(self._context.sessions, keeper.lease, instances)
            except (LeaseLost, IntegrityError) as error:
                # It was removed, or is another's by now.
                logger.info("instances of environment %d are not written: %s", number, error)
            except SQLAlchemyError:
                self._changed = {**changed, **self._changed}
                raise

    @shielded
    async def _wake_asked(self) -> None:
        for number in list(self._waking):
            async with self._context.sessions() as session, session.begin():
                await wake_environment(session, number, Actor("the first request"), utc_now())
            self._waking.discard(number)


@asynccontextmanager
async def running_deployer(deployer: Deployer) -> AsyncIterator[Deployer]:
    """The deployer at work; at the end its work is, too."""
    task = asyncio.create_task(deployer.run(), name="deployer")
    looking_up = asyncio.create_task(deployer.look_up_commits(), name="commits")
    try:
        yield deployer
    finally:
        await end_tasks(task, looking_up)
        await deployer.end()
