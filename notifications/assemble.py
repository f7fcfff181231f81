"""Assembles the workers of notifications: incidents, groups, deliveries and the pruning of history."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta

from control_domain.database.changes import Changes
from control_domain.database.engine import Sessions
from control_domain.database.run_periodically import run_periodically
from control_domain.sealing import SealingKeys
from notifications.channels.all_channels import open_channels
from notifications.channels.outbound_http.resolver import Endpoint
from notifications.delivery.prune import prune_periodically
from notifications.delivery.worker import DeliveryWorker, running_deliveries
from notifications.groups.plan import Timings
from notifications.groups.write_due import GroupWriter, Link
from notifications.incidents.end_forgotten import end_forgotten_periodically
from notifications.incidents.process_events import IncidentWorker
from pipeline_contracts.settings import Settings
from storage_backends.end_task import end_task

logger = logging.getLogger(__name__)

_EVERY_SECONDS = 1.0
_BATCHES_A_STEP = 10
_PAUSE_AFTER_FAULT_SECONDS = 5.0


class _ChangesAndDueGroups(Changes):
    """Decides when the next poll is due: after a change of the database, and when a group of incidents is due."""

    def __init__(self, sessions: Sessions, writer: GroupWriter) -> None:
        super().__init__(sessions)
        self._writer = writer

    def is_due(self) -> bool:
        is_changed = super().is_due()
        return is_changed or self._writer.is_due(datetime.now(UTC))


@asynccontextmanager
async def running_notifications(
    sessions: Sessions,
    settings: Settings,
    sealing_keys: SealingKeys,
    link: Link,
    *,
    endpoints: Collection[Endpoint] = (),
    is_alone: bool,
) -> AsyncIterator[None]:
    """Turn alert events into incidents and messages, and deliver them, until the context ends. `endpoints`: private
    addresses that channels may reach.

    Several control planes may run this on one database. `is_alone`: True if no other control plane does. Raises
    `BadSettings`.
    """
    timings = Timings(
        timedelta(seconds=settings.notification_group_seconds),
        timedelta(seconds=settings.notification_change_seconds),
    )
    writer = GroupWriter(sessions, link, timings)
    incidents = IncidentWorker(sessions, has_email=settings.smtp_url is not None, wait=timings.first)
    stop, more = asyncio.Event(), asyncio.Event()
    async with AsyncExitStack() as stack:
        channels = await stack.enter_async_context(open_channels(settings, endpoints))
        worker = DeliveryWorker(sessions, channels, sealing_keys)
        await stack.enter_async_context(running_deliveries(worker, is_alone=is_alone))
        stack.push_async_callback(
            end_task, asyncio.create_task(prune_periodically(sessions, stop), name="notification history")
        )

        stack.push_async_callback(
            end_task,
            asyncio.create_task(end_forgotten_periodically(sessions, stop), name="forgotten incidents"),
        )

        async def step() -> None:
            for _ in range(_BATCHES_A_STEP):
                if stop.is_set() or not await incidents.process_some(datetime.now(UTC)):
                    break
            else:
                # More events wait, and messages are due as well, so alternate between the two.
                more.set()
            if await writer.write_due(datetime.now(UTC)):
                worker.wake()

        task = asyncio.create_task(
            run_periodically(
                step,
                stop,
                every=_EVERY_SECONDS,
                wake=more,
                logger=logger,
                outage="alert events cannot be processed: the database is unreachable",
                fault="alert events could not be processed",
                after_fault=_PAUSE_AFTER_FAULT_SECONDS,
                changes=_ChangesAndDueGroups(sessions, writer),
            ),
            name="incidents",
        )
        try:
            yield
        finally:
            stop.set()
            more.set()
            await task
