"""Tells Git hosts of deployments in the background, where a host is set up."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from control_domain.database.engine import Sessions
from control_workers.commit_statuses.report_deployments import Hosts, Reporter
from control_workers.run_periodically import keep_doing
from git_hosts.github.commit_statuses import open_github
from pipeline_contracts.settings import Settings
from storage_backends.end_task import end_task

logger = logging.getLogger(__name__)

_EVERY_SECONDS = 2.0
_FAULT_SECONDS = 60.0
# What is being told may be finished, so that the next start does not tell it again.
_END_SECONDS = 3.0


async def keep_reporting(
    sessions: Sessions, hosts: Hosts, stop: asyncio.Event, *, every: float = _EVERY_SECONDS
) -> None:
    """Do so every few seconds, until `stop`."""
    reporter = Reporter(sessions, hosts)
    await keep_doing(
        lambda: reporter.report(stop),
        stop,
        every=every,
        logger=logger,
        outage="commit statuses wait for the database",
        fault="commit statuses could not be told",
        after_fault=_FAULT_SECONDS,
    )


@asynccontextmanager
async def reporting(sessions: Sessions, settings: Settings) -> AsyncIterator[None]:
    """It at work, where a token is set; nothing at all otherwise. Raises `BadSettings`."""
    if settings.github_token is None:
        yield
        return
    async with open_github(settings.github_token, settings.github_api_url) as github:
        stop = asyncio.Event()
        task = asyncio.create_task(keep_reporting(sessions, {"github": github}, stop), name="commit statuses")
        try:
            yield
        finally:
            stop.set()
            await asyncio.wait({task}, timeout=_END_SECONDS)
            await end_task(task)
