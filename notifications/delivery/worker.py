"""The delivery worker: sends each due notification at least once, even if a worker is killed at any point.

The worker leases a notification in one transaction, sends it, and stores the outcome in another transaction. If the
worker is killed in between, the lease remains; when it expires, another worker sends the same message with the same ID
again.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Literal

from sqlalchemy.exc import SQLAlchemyError

from control_domain.database.changes import Changes
from control_domain.database.engine import Sessions
from control_domain.database.run_periodically import run_periodically
from control_domain.sealing import SealingKeys
from notifications.channels.interface import Channel
from notifications.delivery.attempt import Attempt, Leased
from notifications.delivery.leases import Due, find_due, heal_times, release_all_leases, release_lease
from notifications.delivery.send_message import send_message
from notifications.delivery.start_attempt import start_attempt
from notifications.delivery.store_attempt import store_attempt
from storage_backends.end_task import end_task

logger = logging.getLogger(__name__)

MAX_SENDS = 16
"""Maximum number of messages in flight at once."""
ACCOUNT_SENDS = 4
"""Maximum number of messages in flight for one account: receivers that do not respond must not delay other accounts."""
_POLL_SECONDS = 2.0
_LEASE_SECONDS = 60.0
_HEAL_EVERY = timedelta(minutes=1)
# How long to wait for messages in flight, so that the next start does not send them again.
_SHUTDOWN_SECONDS = 5.0
# Pauses between attempts to store an outcome. All pauses and the time of a send together are shorter than a lease.
_STORE_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)

Checkpoint = Literal["leased", "sent", "stored"]
OnCheckpoint = Callable[[Checkpoint, Leased], Awaitable[None]]


async def no_checkpoint(checkpoint: Checkpoint, leased: Leased) -> None:
    """Do nothing. This is the default; fault tests replace it."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


class DeliveryWorker:
    """Delivers notifications. Each control plane may have one."""

    def __init__(
        self,
        sessions: Sessions,
        channels: Mapping[str, Channel],
        sealing_keys: SealingKeys,
        *,
        clock: Callable[[], datetime] = _utc_now,
        lease_seconds: float = _LEASE_SECONDS,
        on_checkpoint: OnCheckpoint = no_checkpoint,
    ) -> None:
        """`channels`: the channels by type. `clock`: decides which notifications are due; leases use the database's
        clock instead."""
        self._sessions = sessions
        self._channels = channels
        self._keys = sealing_keys
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._on_checkpoint = on_checkpoint
        self._in_flight: dict[asyncio.Task[None], Leased] = {}
        self._healed_at: datetime | None = None
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()

    def wake(self) -> None:
        """Poll at once, because notifications were just committed."""
        self._wake.set()

    def stop(self) -> None:
        """Make `run` stop leasing notifications and end."""
        self._stop.set()
        self._wake.set()

    async def release_all_leases(self) -> None:
        """Take over the notifications of workers that have ended. Call this only if no other worker is running."""
        async with self._sessions() as session, session.begin():
            await release_all_leases(session)

    async def run(self) -> None:
        """Deliver notifications until `stop` is called. Then wait a little for messages in flight, and release all
        other notifications."""
        try:
            await run_periodically(
                self._start_due,
                self._stop,
                every=_POLL_SECONDS,
                logger=logger,
                outage="due notifications cannot be sent: the database is unreachable",
                fault="due notifications could not be sent",
                wake=self._wake,
                changes=Changes(self._sessions),
            )
        finally:
            await self._finish()

    async def deliver_due(self) -> int:
        """Deliver all notifications that are due now, and those that become due by these deliveries. Return the number
        of attempts."""
        attempts = 0
        while True:
            started = await self._start_due()
            attempts += started
            if self._in_flight:
                await asyncio.wait(self._in_flight, return_when=asyncio.FIRST_COMPLETED)
            elif not started:
                return attempts

    async def _start_due(self) -> int:
        """Start to send due notifications, up to the limits of messages in flight. Return how many were started."""
        await self._heal_times()
        started = 0
        is_changed = True
        # After each change, query again: a canceled notification may have made the next one due.
        while is_changed and not self._stop.is_set() and len(self._in_flight) < MAX_SENDS:
            is_changed = False
            for due in await self._find_due():
                if not self._has_room(due.account_id):
                    continue
                found = await self._lease(due)
                is_changed |= found != "not due"
                if isinstance(found, Leased):
                    self._begin(found)
                    started += 1
        return started

    async def _heal_times(self) -> None:
        now = self._clock()
        # This comparison also works if the clock was set back.
        if self._healed_at is None or abs(now - self._healed_at) >= _HEAL_EVERY:
            async with self._sessions() as session, session.begin():
                await heal_times(session, now)
            self._healed_at = now

    async def _find_due(self) -> Sequence[Due]:
        busy = self._count_by_account()
        async with self._sessions() as session:
            return await find_due(
                session,
                self._clock(),
                limit=MAX_SENDS,
                without=[account for account, sends in busy.items() if sends >= ACCOUNT_SENDS],
            )

    def _has_room(self, account_id: int) -> bool:
        if self._stop.is_set() or len(self._in_flight) >= MAX_SENDS:
            return False
        return self._count_by_account()[account_id] < ACCOUNT_SENDS

    def _count_by_account(self) -> Counter[int]:
        return Counter(leased.account_id for leased in self._in_flight.values())

    async def _lease(self, due: Due) -> Leased | Literal["not due", "ended"]:
        async with self._sessions() as session, session.begin():
            return await start_attempt(session, due, self._clock(), self._lease_seconds)

    def _begin(self, leased: Leased) -> None:
        task = asyncio.create_task(self._deliver(leased), name=f"deliver {leased.message.id}")
        self._in_flight[task] = leased
        task.add_done_callback(self._end)

    def _end(self, task: "asyncio.Task[None]") -> None:
        del self._in_flight[task]
        # Another message may be sent now, and the next notification of the same recipient may be due.
        self._wake.set()

    async def _deliver(self, leased: Leased) -> None:
        try:
            await self._on_checkpoint("leased", leased)
            attempt = await send_message(self._channels, self._keys, leased, self._clock())
            await self._on_checkpoint("sent", leased)
            stored = await self._store(leased, attempt)
            await self._on_checkpoint("stored", leased)
        except SQLAlchemyError as error:
            logger.warning("notification %s will be sent again: %s", leased.message.id, error)
        except Exception:
            logger.exception("the outcome of notification %s could not be stored", leased.message.id)
        else:
            _log(leased, stored)

    async def _store(self, leased: Leased, attempt: Attempt) -> Attempt | None:
        """Store the outcome. Retry if the database is away, because the message was already sent and would otherwise be
        sent twice."""
        for pause in (*_STORE_PAUSES, None):
            try:
                async with self._sessions() as session, session.begin():
                    return await store_attempt(session, leased, attempt, self._clock())
            except SQLAlchemyError:
                if pause is None:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError

    async def _finish(self) -> None:
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=_SHUTDOWN_SECONDS)
        unfinished = dict(self._in_flight)
        await asyncio.gather(*map(end_task, unfinished))
        if not unfinished:
            return
        try:
            async with self._sessions() as session, session.begin():
                for leased in unfinished.values():
                    await release_lease(session, leased.id, leased.until)
        except SQLAlchemyError as error:
            logger.warning(
                "notifications in flight stay leased for up to %d s: %s", self._lease_seconds, error
            )


def _log(leased: Leased, stored: Attempt | None) -> None:
    """Log a failed attempt. The database has all attempts."""
    if stored is None:
        logger.info("notification %s was canceled, or its lease ended, while it was sent", leased.message.id)
    elif stored.outcome != "sent":
        to = f"{leased.address.type} {leased.recipient}"
        logger.info("notification %s to %s: %s: %s", leased.message.id, to, stored.outcome, stored.error)


@asynccontextmanager
async def running_deliveries(worker: DeliveryWorker, *, is_alone: bool) -> AsyncIterator[DeliveryWorker]:
    """Run the worker. At the end of the context, wait up to 5 s for messages in flight. `is_alone`: True if no other
    worker uses the database; leases of an earlier process are then released at once."""
    if is_alone:
        await worker.release_all_leases()
    task = asyncio.create_task(worker.run(), name="notification deliveries")
    try:
        yield worker
    finally:
        worker.stop()
        await task
