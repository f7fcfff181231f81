"""Reports to the consumers that this edge accepts signals, so that the heartbeat scan does not mistake an outage of the
edge for jobs that did not run.

The records are in the topic of heartbeats with one key, and so in one partition, in order. They have times of receipt,
as signals do, so a backlog of the pipeline makes no gap between them. An edge that cannot append accepts no signal
either, and reports nothing.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ingest_edge.intake import now_ms
from pipeline_contracts import topics
from pipeline_contracts.errors import LogFull, StorageUnavailable
from pipeline_contracts.monitors import INTAKE_KEY, make_intake_record
from storage_backends.event_log.interface import EventLog

logger = logging.getLogger(__name__)

# The heartbeat scan judges no run later than the newest report, so this interval adds to the delay of the scan.
_REPORT_SECONDS = 2.0
# Interval while the log accepts no records. Short, so that the gap between reports ends when the edge accepts signals
# again.
_RETRY_SECONDS = 0.2


async def report_once(log: EventLog) -> bool:
    """Append one report; return False if the log does not accept it."""
    meta, value = make_intake_record(now_ms())
    try:
        await log.append(topics.HEARTBEATS, INTAKE_KEY, meta, value)
    except (LogFull, StorageUnavailable):
        return False
    return True


@asynccontextmanager
async def reporting_intake(log: EventLog) -> AsyncIterator[None]:
    """Report every two seconds within the context. Enter it just before the port opens, so that the first report
    precedes the first signal in the log, and exit it before the port closes."""

    async def report() -> None:
        while True:
            pause = _REPORT_SECONDS
            try:
                if not await report_once(log):
                    pause = _RETRY_SECONDS
            except Exception:
                # Without reports, no heartbeat is judged.
                logger.exception("the edge could not report that it accepts signals")
            await asyncio.sleep(pause)

    task = asyncio.create_task(report(), name="intake reports")
    try:
        # The log receives the first report, but nothing waits for it: the log may be unreachable.
        await asyncio.sleep(0)
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
