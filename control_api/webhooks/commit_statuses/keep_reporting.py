"""Tells Git hosts of deployments in the background, where a host is set up."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy.exc import SQLAlchemyError

from control_api.database import Sessions
from control_api.webhooks.commit_statuses.github import open_github
from control_api.webhooks.commit_statuses.report_deployments import Hosts, Reporter
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
    is_away = False
    while not stop.is_set():
        pause = every
        try:
            await reporter.report(stop)
            is_away = False
        except SQLAlchemyError as error:
            if not is_away:
                logger.warning("commit statuses wait for the database: %s", error)
            is_away = True
        except Exception:
            logger.exception("commit statuses could not be told")
            pause = max(every, _FAULT_SECONDS)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)


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
