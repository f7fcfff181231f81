"""Looks for heartbeats whose time has come: late, down, or a run that takes too long.

The scan does not trust the clock on the wall but the pipeline: its clock is how far all partitions of signals are
applied. A backlog of ours then never looks like a job that did not run; what the wall says is due meanwhile becomes
unknown, and is judged once the signals are there. Any number of scans may run: each change names the version that it
was made from, and the first one counts.
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
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.heartbeat_states import pass_deadlines
from pipeline_contracts.metric_names import MetricName
from storage_backends.monitor_states.interface import MonitorStates, Watched

logger = logging.getLogger(__name__)

_EVERY_SECONDS = 2.0
# An edge reads its clock when a signal's head is there. Its body has to come within 3 s, and the log takes a moment; a
# signal that takes longer withdraws what was judged meanwhile. With the second in which a partition tells how far it
# is, and the pause between scans, what is due is found within 10 s.
_MARGIN_MS = 4000
# Further behind than this the pipeline lags; less is its usual pace.
_LAG_MS = 15_000
_AT_ONCE = 1000
_KEEP_RUNS_MS = 7 * 86_400_000
_PRUNED_AT_ONCE = 5000
_LOOK_SECONDS = 30.0

Partitions = Callable[[str], Awaitable[Collection[int]]]
"""Gives the partitions that a topic has now. Raises `StorageUnavailable`."""


def applied_through(progress: Mapping[int, int], partitions: Collection[int] | None) -> int | None:
    """Return through which time all of these partitions are applied; None if one of them never was.

    `partitions` None: it is not known which there are, and all that were ever applied count. One that is gone must not
    hold the clock, and one that is new may hold signals that nobody has read.
    """
    if partitions is None:
        return min(progress.values(), default=None)
    if not partitions or any(partition not in progress for partition in partitions):
        return None
    return min(progress[partition] for partition in partitions)


class HeartbeatScan(Collector):
    """One scan; `run` until `stop` is set. Its metrics tell what it did."""

    def __init__(
        self,
        states: MonitorStates,
        stop: asyncio.Event,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        partitions: Partitions | None = None,
    ) -> None:
        self._states = states
        self._stop = stop
        self._clock = clock
        self._partitions = partitions
        self._existing: Collection[int] | None = None
        self._looked = -_LOOK_SECONDS
        self._transitions: Counter[str] = Counter()
        self._lag_ms = 0
        self.failing: str | None = None
        """Why nothing is scanned now, for the readiness answer."""

    async def run(self) -> None:
        """Scan every two seconds."""
        while not self._stop.is_set():
            try:
                await self.scan_once()
                self.failing = None
            except StorageUnavailable as error:
                if self.failing is None:
                    logger.warning("heartbeats cannot be scanned now: %s", error)
                self.failing = str(error)
            except Exception as error:
                logger.exception("the scan of heartbeats failed")
                self.failing = str(error)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), _EVERY_SECONDS)

    async def scan_once(self) -> None:
        """Bring every heartbeat to what the clock says. Raises `StorageUnavailable`."""
        now_ms = self._clock()
        await self._look_for_partitions()
        progress = await self._states.read_progress(topics.HEARTBEATS)
        if not progress:
            # Nothing was ever taken in: nothing is known of anybody.
            return
        applied_ms = applied_through(progress, self._existing) or 0
        clock_ms = min(now_ms, applied_ms) - _MARGIN_MS
        self._lag_ms = max(0, now_ms - applied_ms)
        while await self._states.change_due(
            clock_ms, _AT_ONCE, lambda watched: self._pass(watched, clock_ms)
        ):
            if self._stop.is_set():
                return
            await asyncio.sleep(0)
        if self._lag_ms > _LAG_MS:
            marked = await self._states.mark_unknown(clock_ms, now_ms - _LAG_MS, now_ms)
            self._transitions["unknown"] += marked
        await self._states.prune_runs(now_ms - _KEEP_RUNS_MS, _PRUNED_AT_ONCE)

    async def _look_for_partitions(self) -> None:
        """Read which partitions exist, and delete the progress of those that no longer do."""
        if self._partitions is None or time.monotonic() - self._looked < _LOOK_SECONDS:
            return
        try:
            existing = {topic: await self._partitions(topic) for topic in (topics.HEARTBEATS, topics.QUEUES)}
        except StorageUnavailable as error:
            # The clock stands still while the log is away, but what is due meanwhile has to become unknown.
            logger.warning("the partitions of heartbeats cannot be listed now: %s", error)
            return
        for topic, partitions in existing.items():
            if gone := await self._states.forget_progress(topic, partitions):
                logger.warning("%s: %d partitions are gone; their progress is forgotten", topic, gone)
        self._existing = existing[topics.HEARTBEATS]
        self._looked = time.monotonic()

    def _pass(self, watched: Mapping[int, Watched], clock_ms: int) -> list[Watched]:
        for one in watched.values():
            before = one.heartbeat.state
            one.changed += pass_deadlines(one.heartbeat, list(one.runs.values()), clock_ms)
            if one.heartbeat.state != before:
                self._transitions[one.heartbeat.state] += 1
        return list(watched.values())

    def collect(self) -> Iterable[Metric]:
        lag: MetricName = "pharos_monitor_scan_lag_seconds"
        yield GaugeMetricFamily(lag, "How far signals of heartbeats are behind", value=self._lag_ms / 1000)
        name: MetricName = "pharos_monitor_transitions"
        transitions = CounterMetricFamily(name, "States that time has changed", labels=["state"])
        for state, count in sorted(self._transitions.items()):
            transitions.add_metric([state], count)
        yield transitions


@asynccontextmanager
async def running_scan(
    states: MonitorStates, registry: CollectorRegistry, partitions: Partitions
) -> AsyncIterator[HeartbeatScan]:
    """A scan at work, with its metrics in the registry; at the end it finishes what it is at."""
    stop = asyncio.Event()
    scan = HeartbeatScan(states, stop, partitions=partitions)
    registry.register(scan)
    scanning = asyncio.create_task(scan.run(), name="heartbeat scan")
    try:
        yield scan
    finally:
        stop.set()
        await scanning
