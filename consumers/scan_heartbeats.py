"""The heartbeat scan: finds heartbeats whose deadlines have passed (late, down, or a run that takes too long).

The scan does not use the wall clock. Its clock is the time up to which the signals of all partitions are applied: a
backlog of the pipeline never looks like a job that did not run. Heartbeats that are due by the wall clock meanwhile
become unknown until their signals are applied. Any number of scans may run at once: a change applies only to the
version of the heartbeat that it was computed from.

The scan also stores every ten seconds that it runs; edges in separate processes store that they accept signals. These
two stored times are clocks. If one of them stood still, no process scanned or no edge accepted signals. No heartbeat
changes its state because of such a time (`pipeline_contracts.blind_times`). While the edges' clock stands still, the
scan's clock does too.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from pipeline_contracts import topics
from pipeline_contracts.blind_times import INTAKE_CLOCK, SCAN_CLOCK
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.heartbeat_states import apply_deadlines
from pipeline_contracts.metric_names import MetricName
from storage_backends.monitor_states.interface import MonitorStates, Watched

logger = logging.getLogger(__name__)

_SCAN_SECONDS = 2.0
# An edge reads its clock when it has received the head of a signal's request. The body must arrive within 3 s, and the
# log needs a moment. A signal that takes longer corrects the state that was set meanwhile. Together with the second
# between two reports of a partition's progress and the pause between scans, a missed deadline is found within 10 s.
_MARGIN_MS = 4000
# If signals are applied with a larger delay, due heartbeats become unknown. A smaller delay is normal.
_LAG_MS = 15_000
_BATCH_SIZE = 1000
_RETAIN_RUNS_MS = 7 * 86_400_000
_PRUNE_BATCH_SIZE = 5000
_PRUNE_LOG_MS = 60_000
_PARTITION_POLL_SECONDS = 30.0
_CLOCK_MS = 10_000

ListPartitions = Callable[[str], Awaitable[Collection[int]]]
"""Returns the current partitions of a topic. Raises `StorageUnavailable`."""


def applied_through_ms(progress: Mapping[int, int], partitions: Collection[int] | None) -> int | None:
    """Return the time (milliseconds since 1970) up to which the signals in all `partitions` are applied. None if none
    were ever applied in one of them.

    If `partitions` is None (not known), all partitions with progress count. A partition that no longer exists must not
    stop this clock. A new partition may have signals that were never read.
    """
    if partitions is None:
        return min(progress.values(), default=None)
    if not partitions or any(partition not in progress for partition in partitions):
        return None
    return min(progress[partition] for partition in partitions)


class HeartbeatScan(Collector):
    """Runs the scan, and counts what it does. Call `run` to start it, and set `stop` to end it."""

    def __init__(
        self,
        states: MonitorStates,
        stop: asyncio.Event,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        partitions: ListPartitions | None = None,
    ) -> None:
        self._states = states
        self._stop = stop
        self._clock = clock
        self._partitions = partitions
        self._existing: Collection[int] | None = None
        self._partitions_read_at = -_PARTITION_POLL_SECONDS
        self._transitions: Counter[str] = Counter()
        self._lag_ms = 0
        self._pruned_log_ms = 0
        self._kept_clock_ms = 0
        self.failure_reason: str | None = None
        """Why the last scan failed, for the readiness check. None if it succeeded."""

    async def run(self) -> None:
        """Scan every two seconds until `stop` is set."""
        while not self._stop.is_set():
            try:
                await self.scan_once()
                self.failure_reason = None
            except StorageUnavailable as error:
                if self.failure_reason is None:
                    logger.warning("cannot scan heartbeats, retrying every %.0f s: %s", _SCAN_SECONDS, error)
                self.failure_reason = str(error)
            except Exception as error:
                logger.exception("the heartbeat scan failed")
                self.failure_reason = str(error)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), _SCAN_SECONDS)

    async def scan_once(self) -> None:
        """Update the state of every heartbeat whose deadline has passed. Raises `StorageUnavailable`."""
        now_ms = self._clock()
        await self.keep_clock(now_ms)
        await self._refresh_partitions()
        progress = await self._states.read_progress(topics.HEARTBEATS)
        if not progress:
            # No signal was ever applied, so no state can be computed.
            return
        applied_ms = applied_through_ms(progress, self._existing) or 0
        intake = await self._states.read_progress(INTAKE_CLOCK)
        # Without a newer report of an edge, signals may have been refused since its last report.
        applied_ms = min([applied_ms, *intake.values()])
        clock_ms = min(now_ms, applied_ms) - _MARGIN_MS
        self._lag_ms = max(0, now_ms - applied_ms)
        while await self._states.change_due(
            clock_ms, _BATCH_SIZE, lambda watched: self._apply_deadlines(watched, clock_ms)
        ):
            if self._stop.is_set():
                return
            await asyncio.sleep(0)
        if self._lag_ms > _LAG_MS:
            marked = await self._states.mark_unknown(clock_ms, now_ms - _LAG_MS, now_ms)
            self._transitions["unknown"] += marked
        await self._states.prune_runs(now_ms - _RETAIN_RUNS_MS, _PRUNE_BATCH_SIZE)
        if now_ms - self._pruned_log_ms >= _PRUNE_LOG_MS:
            await self._states.prune_log(now_ms - _RETAIN_RUNS_MS, _PRUNE_BATCH_SIZE)
            await self._states.prune_creating_pings(now_ms - _RETAIN_RUNS_MS, _PRUNE_BATCH_SIZE)
            self._pruned_log_ms = now_ms

    async def keep_clock(self, now_ms: int) -> None:
        """Record every ten seconds that the scan runs. If no scan ran for a while, move all deadlines past that
        time."""
        if now_ms - self._kept_clock_ms < _CLOCK_MS:
            return
        gap = await self._states.keep_clock(SCAN_CLOCK, now_ms)
        self._kept_clock_ms = now_ms
        if gap is not None:
            logger.warning(
                "no process scanned heartbeats for %.0f s: their deadlines move by it", gap.length_ms / 1000
            )

    async def _refresh_partitions(self) -> None:
        """Read which partitions exist. Delete the progress of partitions that no longer exist."""
        if self._partitions is None or time.monotonic() - self._partitions_read_at < _PARTITION_POLL_SECONDS:
            return
        try:
            existing = {topic: await self._partitions(topic) for topic in topics.MONITOR_TOPICS}
        except StorageUnavailable as error:
            # This is not fatal: without the log, the scan's clock stands still, and due heartbeats must become unknown.
            logger.warning("cannot list the partitions of heartbeats and queues: %s", error)
            return
        for topic, partitions in existing.items():
            if deleted := await self._states.forget_progress(topic, partitions):
                logger.warning(
                    "%s: deleted the progress of %d partitions that no longer exist", topic, deleted
                )
        self._existing = existing[topics.HEARTBEATS]
        self._partitions_read_at = time.monotonic()

    def _apply_deadlines(self, watched: Mapping[int, Watched], clock_ms: int) -> list[Watched]:
        for entry in watched.values():
            old_state = entry.heartbeat.state
            entry.changed += apply_deadlines(entry.heartbeat, list(entry.runs.values()), clock_ms)
            if entry.heartbeat.state != old_state:
                self._transitions[entry.heartbeat.state] += 1
        return list(watched.values())

    def collect(self) -> Iterable[Metric]:
        lag: MetricName = "pharos_monitor_scan_lag_seconds"
        yield GaugeMetricFamily(lag, "Seconds by which applied signals lag", value=self._lag_ms / 1000)
        name: MetricName = "pharos_monitor_transitions"
        transitions = CounterMetricFamily(name, "State changes by passed deadlines", labels=["state"])
        for state, count in sorted(self._transitions.items()):
            transitions.add_metric([state], count)
        yield transitions


@asynccontextmanager
async def running_scan(
    states: MonitorStates, registry: CollectorRegistry, partitions: ListPartitions
) -> AsyncIterator[HeartbeatScan]:
    """Run a scan in the background, with its metrics in the registry; stop the scan after the current iteration.

    Enter this context before the consumer of heartbeats starts: a signal must not be applied before the deadlines have
    moved past the time in which Pharos was down.
    """
    stop = asyncio.Event()
    scan = HeartbeatScan(states, stop, partitions=partitions)
    with contextlib.suppress(StorageUnavailable):
        await scan.keep_clock(time.time_ns() // 1_000_000)
    registry.register(scan)
    scanning = asyncio.create_task(scan.run(), name="heartbeat scan")
    try:
        yield scan
    finally:
        stop.set()
        await scanning
