"""Runs the scheduled jobs of the demo shop: calls their ping URLs when they begin and when they end."""

import asyncio
import logging
import random
import time
import uuid

import aiohttp

from demo.ledger import Ledger
from demo.story.heartbeats import JOBS, PAST_RUNS, Job
from pipeline_contracts.schedules import next_due

logger = logging.getLogger(__name__)

_TIMEOUT = aiohttp.ClientTimeout(total=10.0)
# After a start, jobs with a period run again at once.
_FIRST_RUN_SECONDS = 5.0


async def ping_heartbeats(session: aiohttp.ClientSession, host: str, ledger: Ledger) -> None:
    """Run the jobs until cancelled. `host` is the origin of the platform. A failed request is logged and the job
    continues; its heartbeat becomes late, as in a real installation."""
    await ledger.wait_for(PAST_RUNS)
    async with asyncio.TaskGroup() as jobs:
        for job in JOBS:
            urls = ledger.get(f"heartbeat {job.name}")["urls"]
            jobs.create_task(_run_job(session, host, job, urls))


async def _run_job(session: aiohttp.ClientSession, host: str, job: Job, urls: dict[str, str]) -> None:
    rng = random.Random()
    due_s = time.time() + _FIRST_RUN_SECONDS
    if job.schedule.cron is not None:
        due_s = next_due(job.schedule, round(time.time() * 1000)) / 1000
    while True:
        await asyncio.sleep(max(0.0, due_s - time.time()))
        run = str(uuid.uuid4())
        await _ping(session, f"{host}{urls['start']}?rid={run}")
        await asyncio.sleep(job.typical_seconds * rng.lognormvariate(0.0, 0.22))
        if job.is_broken:
            await _ping(session, f"{host}{urls['success']}/{job.exit_status}?rid={run}", job.failure)
        else:
            await _ping(session, f"{host}{urls['success']}/0?rid={run}", job.output)
        due_s = next_due(job.schedule, round(due_s * 1000)) / 1000


async def _ping(session: aiohttp.ClientSession, url: str, output: str = "") -> None:
    try:
        async with session.post(url, data=output.encode(), timeout=_TIMEOUT) as response:
            if response.status >= 400:
                logger.warning("a ping of the demo got the status %d", response.status)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        logger.warning("a ping of the demo failed: %s", type(error).__name__)
