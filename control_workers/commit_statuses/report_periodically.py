"""Reports deployments to Git hosts as commit statuses in the background."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from control_domain.database.engine import Sessions
from control_domain.database.run_periodically import run_periodically
from control_workers.commit_statuses.report_deployments import Hosts, Reporter
from git_hosts.all_hosts import HOSTS
from pipeline_contracts.settings import Settings
from storage_backends.end_task import end_task

logger = logging.getLogger(__name__)

_EVERY_SECONDS = 2.0
_PAUSE_AFTER_FAULT_SECONDS = 60.0
# How long to wait for a report in progress, so that the next start does not repeat it.
_SHUTDOWN_SECONDS = 3.0


async def report_periodically(
    sessions: Sessions, hosts: Hosts, stop: asyncio.Event, *, every: float = _EVERY_SECONDS
) -> None:
    """Report the due commit statuses every `every` seconds, until `stop` is set."""
    reporter = Reporter(sessions, hosts)
    await run_periodically(
        lambda: reporter.report(stop),
        stop,
        every=every,
        logger=logger,
        outage="commit statuses cannot be reported: the database is unreachable",
        fault="commit statuses could not be reported",
        after_fault=_PAUSE_AFTER_FAULT_SECONDS,
    )


@asynccontextmanager
async def running_status_reports(sessions: Sessions, settings: Settings) -> AsyncIterator[None]:
    """Within the context, report commit statuses to each Git host for which the settings have a
    token. Raises `BadSettings`."""
    async with AsyncExitStack() as stack:
        hosts = {
            kind: await stack.enter_async_context(client)
            for kind, host in HOSTS.items()
            if (client := host.open_commit_status_client(settings)) is not None
        }
        if not hosts:
            yield
            return
        stop = asyncio.Event()
        task = asyncio.create_task(report_periodically(sessions, hosts, stop), name="commit statuses")
        try:
            yield
        finally:
            stop.set()
            await asyncio.wait({task}, timeout=_SHUTDOWN_SECONDS)
            await end_task(task)
