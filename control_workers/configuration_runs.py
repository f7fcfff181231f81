"""Carries applications out, wherever a control plane runs: operation by operation, each once, whatever ends in between.

An operation is taken up in one transaction, carried out in the next together with the note that it is done, and only
what the edges have to be told, which is noted there too, comes behind that; telling them again is harmless. Whoever
finds an operation that was begun and not ended goes on from what the database says of it.
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
from control_domain.configurations.application_status import find_next
from control_domain.configurations.applications import move_operation, settle_application
from control_domain.configurations.effects.carry_out import CannotCarryOut, ToTell, carry_out
from control_domain.configurations.lowered_gates import read_agreed
from control_domain.configurations.renew_actions import open_anew
from control_domain.configurations.reviews import forget_reviews
from control_domain.database.engine import Sessions
from control_domain.database.errors import DatabaseAway, is_behind
from control_domain.projects.hold import hold_project
from control_domain.sealing import CannotOpen, Sealed, SealingKeys
from control_domain.sites.operations import live_sites
from control_domain.tables.configuration import Operation
from control_domain.tables.projects import Project
from control_workers.configuration_leases import Holder, LeaseLost, free_all
from control_workers.run_periodically import Throttle, run_periodically
from pipeline_contracts.deploy_states import OperationStatus
from pipeline_contracts.errors import NotFound, StorageUnavailable
from storage_backends.key_directory.interface import KeyDirectory

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
_LEASE = timedelta(seconds=15)
_FORGET_SECONDS = 60.0
_FAULT = "It failed here, and the control plane's log says why. Try it again, or make a new review."

Step = Literal["begun", "carried out", "told"]
OnStep = Callable[[Step, int], Awaitable[None]]
"""Gets each step and the operation's position."""


async def no_step(step: Step, position: int) -> None:
    """What happens between the steps outside fault tests."""


def _is_passing(error: Exception) -> bool:
    """Whether the same may work later though nobody mends anything."""
    # What the database cannot do now may also be what the edges cannot be told: it is both kinds of error.
    is_away = isinstance(error, LeaseLost | DatabaseAway | PoolExhausted)
    return is_away or (isinstance(error, ProgrammingError) and is_behind(error))


@dataclass(frozen=True, slots=True)
class _Begun:
    """An operation that was taken up, and whose it is."""

    operation_id: int
    position: int
    to_tell: ToTell | None
    """Not None: it is carried out but for this."""
    project_id: int


class ConfigurationRunWorker:
    """One worker; there may be one in each control plane."""

    def __init__(
        self,
        sessions: Sessions,
        directory: KeyDirectory,
        keys: SealingKeys,
        *,
        lease: timedelta = _LEASE,
        on_step: OnStep = no_step,
    ) -> None:
        self._sessions = sessions
        self._directory = directory
        self._keys = keys
        self._on_step = on_step
        self._holder = Holder(lease)
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()

    def wake(self) -> None:
        """Something was applied, or tried again, and is committed."""
        self._wake.set()

    def stop(self) -> None:
        """Let `run` end behind the operation that it is at."""
        self._stop.set()
        self._wake.set()

    async def free_all(self) -> None:
        """Begin with what workers that are gone were at. For who knows that there is no other worker."""
        async with self._sessions() as session, session.begin():
            await free_all(session)

    async def run(self) -> None:
        """Until `stop`."""
        forgetting = Throttle(_FORGET_SECONDS)

        async def do_iteration() -> None:
            if forgetting.is_due():
                await self._forget()
                forgetting.done()
            while not self._stop.is_set() and (number := await self._claim()) is not None:
                await self._work(number)

        await run_periodically(
            do_iteration,
            self._stop,
            every=_LOOK_SECONDS,
            logger=logger,
            outage="applications wait for the database",
            # Its lease keeps it back for a while.
            fault="an application could not be carried on with",
            wake=self._wake,
        )

    async def _forget(self) -> None:
        async with self._sessions() as session, session.begin():
            await forget_reviews(session, datetime.now(UTC))

    async def _claim(self) -> int | None:
        async with self._sessions() as session, session.begin():
            return await self._holder.claim(session)

    async def _work(self, number: int) -> None:
        try:
            while not self._stop.is_set() and (begun := await self._begin(number)) is not None:
                await self._on_step("begun", begun.position)
                await self._finish(number, begun)
        except LeaseLost:
            # Or its operations that were left were canceled.
            logger.info("application %d is not this worker's any more", number)
        if self._stop.is_set():
            await self._let_go(number)

    async def _begin(self, number: int) -> _Begun | None:
        """Take up the next operation, or the one in the middle of which a worker ended; None: nothing is to be done."""
        now = datetime.now(UTC)
        async with self._sessions() as session, session.begin():
            application = await self._holder.hold(session, number)
            # Not the whole of each: there may be thousands, and this is asked for every one of them.
            all_of = select(Operation.id, Operation.status).where(Operation.application_id == number)
            operations = (await session.execute(all_of.order_by(Operation.position))).all()
            place = find_next([OperationStatus(status) for _, status in operations])
            if place is None:
                await settle_application(session, application, now)
                return None
            operation = await session.get_one(Operation, operations[place][0])
            if operation.status == OperationStatus.PENDING:
                await move_operation(session, operation, OperationStatus.RUNNING, now, started_at=now)
            operation.attempts += 1
            to_tell = None if operation.to_tell is None else ToTell.from_json(operation.to_tell)
            return _Begun(operation.id, operation.position, to_tell, application.project_id)

    async def _finish(self, number: int, begun: _Begun) -> None:
        try:
            await self._carry_through(number, begun)
        except (CannotCarryOut, CannotOpen) as error:
            await self._end(number, begun, OperationStatus.FAILED, str(error))
        except Exception as error:
            if _is_passing(error):
                raise
            # Begun again and again it would hold up all that is to be applied, and nobody could cancel it.
            logger.exception("operation %d of application %d has failed", begun.operation_id, number)
            await self._end(number, begun, OperationStatus.FAILED, _FAULT)

    async def _carry_through(self, number: int, begun: _Begun) -> None:
        to_tell = begun.to_tell
        if to_tell is None:
            to_tell = await self._carry_out(number, begun)
            await self._on_step("carried out", begun.position)
            if not to_tell:
                return
        try:
            await self._tell(to_tell)
        except StorageUnavailable as error:
            if _is_passing(error):
                raise
            told = f"It is done, but the edges could not be told: {error} Try it again, which tells them."
            await self._end(number, begun, OperationStatus.FAILED, told)
            return
        await self._on_step("told", begun.position)
        await self._end(number, begun, OperationStatus.SUCCEEDED, None)

    async def _carry_out(self, number: int, begun: _Begun) -> ToTell:
        now = datetime.now(UTC)
        async with self._sessions() as session, session.begin():
            project = await session.get(Project, begun.project_id)
            if project is None:
                raise CannotCarryOut("The project was removed.")
            try:
                # Before the application: whoever cancels an operation holds both in this order.
                await hold_project(session, project)
            except NotFound:
                raise CannotCarryOut("The project was removed.") from None
            application = await self._holder.hold(session, number)
            operation = await session.get_one(Operation, begun.operation_id)
            if operation.sealed is None or operation.key_id is None:
                raise CannotCarryOut("What it was to do is not kept any more: make a new review.")
            sealed = Sealed(operation.key_id, operation.sealed)
            (action,) = await open_anew(session, self._keys, project, sealed)
            actor = Actor(
                application.source, application.person_id, application.token_id, application.request_id
            )
            agreed = read_agreed(operation.agreed)
            to_tell = await carry_out(session, self._keys, project, action, actor, now, agreed)
            operation.sealed = operation.key_id = None
            if to_tell:
                operation.to_tell = to_tell.to_json()
            else:
                await move_operation(session, operation, OperationStatus.SUCCEEDED, now, error=None)
            await session.flush()
            return to_tell

    async def _tell(self, to_tell: ToTell) -> None:
        """Publish the keys that one operation has changed, each alone: a list of all keys would cost far more."""
        async with self._sessions() as session:
            entries = [entry for site in to_tell.sites for entry in await live_sites(session, site)]
        for entry in entries:
            await self._directory.publish(entry)
        for digest in to_tell.forget:
            await self._directory.revoke(digest)

    async def _end(self, number: int, begun: _Begun, to: OperationStatus, error: str | None) -> None:
        now = datetime.now(UTC)
        async with self._sessions() as session, session.begin():
            await self._holder.hold(session, number)
            operation = await session.get_one(Operation, begun.operation_id, populate_existing=True)
            if to is OperationStatus.SUCCEEDED:
                operation.to_tell = None
            await move_operation(session, operation, to, now, error=error)
        if error is not None:
            logger.warning("operation %d of application %d has failed: %s", begun.operation_id, number, error)

    async def _let_go(self, number: int) -> None:
        async with self._sessions() as session, session.begin():
            await self._holder.let_go(session, number)


@asynccontextmanager
async def running_configuration_worker(
    worker: ConfigurationRunWorker, *, is_alone: bool
) -> AsyncIterator[ConfigurationRunWorker]:
    """The worker at work; at the end it is behind an operation. `is_alone`: no other worker has the same database."""
    if is_alone:
        await worker.free_all()
    task = asyncio.create_task(worker.run(), name="applications")
    try:
        yield worker
    finally:
        worker.stop()
        await task
