"""The alert scan: it claims the lease, reads all sources, and writes the changed states with their events in one
transaction."""

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from analytics_queries.store_clock import store_time_ms
from analytics_queries.telemetry.limited_sql import share_time
from control_domain.database.engine import Sessions
from control_domain.sites.operations import SiteWithProject, find_sites
from control_workers.alert_scan.clocks import (
    STORED,
    LeaseLost,
    ScanClock,
    ScanLease,
    read_through,
    release_all,
    set_through,
)
from control_workers.alert_scan.conditions import Reading, Scope, failed
from control_workers.alert_scan.exception_spikes import PREFIX as SPIKE_PREFIX
from control_workers.alert_scan.exception_spikes import WINDOW, SpikeScan
from control_workers.alert_scan.exceptions import ExceptionScan, Found
from control_workers.alert_scan.judge import Changes, Remembered, judge
from control_workers.alert_scan.outages import NOTE, Outage, find_outage, is_reported, read_outage
from control_workers.alert_scan.platform import LAG, PlatformScan, Progress, find_operator, read_progress
from control_workers.alert_scan.queues import Queues, observe_waits, read_lost_workers, read_queues
from control_workers.alert_scan.read_thresholds import ThresholdOf, leave_out_changed, read_thresholds
from control_workers.alert_scan.sites import SILENCE_PREFIX, VITAL_PREFIX, SiteScan
from control_workers.alert_scan.sites import SPIKE_PREFIX as TRAFFIC_PREFIX
from control_workers.alert_scan.states import read_note, read_states, write_changes, write_note
from control_workers.alert_scan.thresholds import ThresholdScan
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.metric_names import MetricName
from pipeline_contracts.times import from_epoch_ms, to_epoch_ms
from storage_backends.column_store.interface import ColumnStore, QueryRefused

logger = logging.getLogger(__name__)

# Time limit for all queries of a scan together. The lease lasts longer.
_QUERY_SECONDS = 60.0
_LEASE_SECONDS = 120.0
_HOUR = timedelta(hours=1)
_PAUSE = timedelta(seconds=75)
_EVERY = {"traffic": timedelta(minutes=5), "vitals": _HOUR}
"""By source, how often it is read. Sources that are read at each scan are missing."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """What is stored at the beginning of a scan."""

    states: Mapping[str, Remembered]
    thresholds: Sequence[ThresholdOf]
    queues: Queues
    lost_workers: Reading
    through: datetime | None
    """The time up to which exceptions are evaluated."""
    sites: Sequence[SiteWithProject]


class AlertScan(Collector):
    """The alert scan of one control plane, and its metrics."""

    def __init__(
        self,
        sessions: Sessions,
        store: ColumnStore,
        data_folder: Path | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`data_folder`: the data folder of the embedded platform. None if the engines are servers."""
        self._sessions = sessions
        self._store = store
        self._clock = clock
        self._lease = ScanLease(_LEASE_SECONDS)
        self._exceptions = ExceptionScan(sessions, store)
        self._spikes = SpikeScan(sessions, store)
        self._thresholds = ThresholdScan(store)
        self._sites = SiteScan(store)
        self._platform = PlatformScan(store, data_folder)
        self._done: dict[str, datetime] = {}
        self._blind_to = from_epoch_ms(0)
        self._seconds = 0.0
        self._complete_at = time.monotonic()
        self._events: Counter[tuple[str, str]] = Counter()

    async def scan_once(self) -> bool:
        """Evaluate all conditions. Return False if another control plane scans.

        If a source cannot be read, its conditions stay unchanged. Raises the errors of an unreachable database;
        nothing is changed then.
        """
        began = time.monotonic()
        now = self._clock()
        async with self._sessions() as session, session.begin():
            clock = await self._lease.claim(session, now)
        operator = None if clock is None else await find_operator(self._sessions)
        if clock is None or operator is None:
            self._complete_at = began
            return False
        with share_time(_QUERY_SECONDS):
            await self._scan(clock, operator, now)
        self._complete_at = time.monotonic()
        self._seconds = self._complete_at - began
        return True

    async def release(self) -> None:
        """End the lease of this control plane, so that another one can scan."""
        async with self._sessions() as session, session.begin():
            await self._lease.release(session)

    async def release_all(self) -> None:
        """End the lease, even if another control plane holds it."""
        async with self._sessions() as session, session.begin():
            await release_all(session)

    async def _scan(self, clock: ScanClock, operator: Scope, now: datetime) -> None:
        store_now = await self._read_store_time()
        is_readable = store_now is not None
        outage, blind_since = find_outage(clock.through, clock.blind_since, now, is_readable=is_readable)
        progress = await read_progress(self._sessions)
        blind_to = self._find_blind_end(clock, progress, outage, now)
        stored = await self._read_database(now, blind_to)
        readings, lag = await self._platform.read(operator, progress, now, is_readable=is_readable)
        # If the consumers lag, the stored data does not show the current state.
        is_current = is_readable and (lag is None or lag <= LAG.threshold)
        readings += [observe_waits(stored.queues, stored.thresholds), stored.lost_workers]
        readings.append(
            await self._thresholds.read(
                stored.thresholds, stored.queues, now, blind_to, is_current=is_current
            )
        )
        found = Found([], None)
        if store_now is not None:
            found = await self._exceptions.read(stored.through, store_now, now)
        done: list[str] = []
        if is_current:
            knows_silence = progress.has_intake(now, now - _HOUR) and outage is None
            rates, done = await self._read_rates(stored, now, knows_silence=knows_silence)
            readings += rates
        else:
            readings.append(failed(SPIKE_PREFIX))
        changes = Changes(events=[*found.events])
        for reading in readings:
            judge(reading, stored.states, now, changes)
        if await self._write(changes, stored, operator, outage, blind_since, found.through, now):
            # Do not do this earlier: results that were not written must be read again.
            self._exceptions.keep(found, now)
            self._done.update(dict.fromkeys(done, now))

    def _find_blind_end(
        self, clock: ScanClock, progress: Progress, outage: Outage | None, now: datetime
    ) -> datetime:
        """Return when the last time ended in which Pharos may have missed data."""
        if outage is not None:
            self._blind_to = now
        known = max(self._blind_to, from_epoch_ms(progress.blind_to_ms))
        # After a shorter pause, the clocks of the edges show within seconds whether the edges paused too.
        usual = _PAUSE + timedelta(seconds=self._seconds)
        has_paused = clock.through is not None and now - clock.through > usual
        return now if has_paused else known

    async def _read_database(self, now: datetime, blind_to: datetime) -> _Stored:
        async with self._sessions() as session:
            states = await read_states(session)
            thresholds = await read_thresholds(session)
            queues = await read_queues(session, thresholds, states, now)
            lost_workers = await read_lost_workers(session, states, queues.clock_ms, to_epoch_ms(blind_to))
            through = await read_through(session, STORED)
            is_due = any(self._is_due(name, now) for name in _EVERY)
            sites = await find_sites(session) if is_due else []
        return _Stored(states, thresholds, queues, lost_workers, through, sites)

    async def _read_store_time(self) -> datetime | None:
        try:
            return from_epoch_ms(await store_time_ms(self._store))
        except (StorageUnavailable, QueryRefused) as error:
            logger.warning("the column store cannot be read: %s", error)
            return None

    async def _read_rates(
        self, stored: _Stored, now: datetime, *, knows_silence: bool
    ) -> tuple[list[Reading], list[str]]:
        """Return the readings, and the names of those sources in `_EVERY` that were read."""

        async def traffic() -> Sequence[Reading]:
            return await self._sites.read_traffic(
                stored.sites, stored.states, now, knows_silence=knows_silence
            )

        async def spikes() -> Sequence[Reading]:
            return [await self._spikes.read(stored.states, now)]

        async def vitals() -> Sequence[Reading]:
            return [await self._sites.read_vitals(stored.sites, stored.states, now)]

        readings, done = [], []
        is_known = any(key.startswith(SPIKE_PREFIX) for key in stored.states)
        # An exception is stored some time after it occurred.
        if is_known or self._exceptions.has_seen(now - 2 * WINDOW):
            readings += await _attempt(spikes, SPIKE_PREFIX)
        for name, read, prefixes in (
            ("traffic", traffic, (TRAFFIC_PREFIX, SILENCE_PREFIX)),
            ("vitals", vitals, (VITAL_PREFIX,)),
        ):
            if self._is_due(name, now):
                readings += await _attempt(read, *prefixes)
                done.append(name)
        return readings, done

    def _is_due(self, name: str, now: datetime) -> bool:
        done = self._done.get(name)
        return done is None or now - done >= _EVERY[name]

    async def _write(
        self,
        changes: Changes,
        stored: _Stored,
        operator: Scope,
        outage: Outage | None,
        blind_since: datetime | None,
        through: datetime | None,
        now: datetime,
    ) -> bool:
        """Write the results of the scan. Return False and write nothing if another control plane scans now."""
        try:
            async with self._sessions() as session, session.begin():
                await self._lease.advance(session, now, blind_since)
                await leave_out_changed(session, stored.thresholds, stored.states, changes)
                noted = read_outage(await read_note(session, NOTE))
                pending = noted if outage is None else outage.merge(noted)
                if pending is not None and pending.is_settled(now) and blind_since is None:
                    if not await is_reported(session, operator, pending):
                        changes.events.append(pending.to_event(operator, now))
                    pending = None
                if pending != noted:
                    await write_note(session, NOTE, {} if pending is None else pending.to_note(), now)
                if through is not None:
                    await set_through(session, STORED, through)
                await write_changes(session, changes)
        except LeaseLost:
            logger.warning("another control plane took over the alert scan: this one took too long")
            return False
        self._events.update((event.kind, event.state) for event in changes.events)
        return True

    def collect(self) -> Iterable[Metric]:
        seconds: MetricName = "pharos_alert_scan_seconds"
        yield GaugeMetricFamily(seconds, "Seconds that the last alert scan took", value=self._seconds)
        age: MetricName = "pharos_alert_scan_age_seconds"
        since = time.monotonic() - self._complete_at
        yield GaugeMetricFamily(age, "Seconds since the last complete alert scan", value=since)
        name: MetricName = "pharos_alert_scan_events"
        events = CounterMetricFamily(name, "Alert events that the scan has written", labels=["kind", "state"])
        for labels, count in sorted(self._events.items()):
            events.add_metric(labels, count)
        yield events


async def _attempt(read: Callable[[], Awaitable[Sequence[Reading]]], *prefixes: str) -> list[Reading]:
    """Return what `read` returns. If it fails, return failed readings for the conditions with these prefixes."""
    try:
        return [*await read()]
    except (StorageUnavailable, QueryRefused) as error:
        logger.warning("%s cannot be evaluated now: %s", " and ".join(map(str.strip, prefixes)), error)
        return [failed(prefix) for prefix in prefixes]
