"""Applies signals and pings to the runs and states of heartbeats. It makes no rows, so heartbeats work without the
column store."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple, cast

import msgspec

from consumers.transforms.monitor_topic import MonitorTopic
from pipeline_contracts import topics
from pipeline_contracts.blind_times import INTAKE_CLOCK
from pipeline_contracts.heartbeat_runs import Run, record_output
from pipeline_contracts.heartbeat_states import Heartbeat, apply_signal, note_signal, update_state
from pipeline_contracts.monitors import (
    INTAKE_MONITOR,
    HeartbeatSignal,
    Ping,
    PingSignal,
    Signal,
    decode_monitor_meta,
)
from pipeline_contracts.ping_pairs import PingPairs, UnpairedPing, assign_run, repeat_window_ms
from pipeline_contracts.records import LogRecord
from storage_backends.monitor_states.interface import (
    LogEntry,
    MonitorStates,
    NamedHeartbeat,
    Progress,
    Watched,
)

logger = logging.getLogger(__name__)

# Several edges report that they accept signals, each of them every two seconds. Reports within this time are not
# stored.
_CLOCK_MS = 1000
# Another consumer may have the partition with the edges' reports, so this one reads their time from the database. It
# reads again after this time, as measured by the times of signals.
_READ_CLOCK_MS = 10_000

_decode = msgspec.json.Decoder(HeartbeatSignal).decode
_decode_ping = msgspec.json.Decoder(Ping).decode


class _Received(NamedTuple):
    heartbeat_id: int
    environment_id: str
    run_id: str
    """The ID for a new run if the ping names no run: the ping's own ID."""
    signal: PingSignal
    received_ms: int
    unpaired: bool = False
    offset: int = 0
    exit_status: int | None = None
    output: str | None = None
    name: str | None = None
    """The name of the heartbeat, if the edge did not know its ID."""
    entry_id: str = ""
    """The ID for an entry of the heartbeat's log: the ping's own ID."""
    may_create: bool = False


class HeartbeatsTopic(MonitorTopic[_Received]):
    """The transform of the topic `topics.HEARTBEATS`."""

    topic = topics.HEARTBEATS
    report_noun = "signal"

    def __init__(self, states: MonitorStates) -> None:
        super().__init__(states)
        self._kept_ms = 0
        self._intake_ms: int | None = None
        self._read_for_ms = 0

    def decode(self, record: LogRecord) -> _Received:
        meta = decode_monitor_meta(record.meta)
        if meta.kind not in ("ping", "named ping"):
            sent = _decode(record.value)
            return _Received(
                meta.monitor, meta.environment_id, str(sent.run_id), sent.signal, meta.received_ms
            )
        ping = _decode_ping(record.value)
        return _Received(
            meta.monitor,
            meta.environment_id,
            str(ping.run_id or ping.ping_id),
            ping.signal,
            meta.received_ms,
            ping.run_id is None,
            record.offset,
            ping.exit_status,
            ping.output,
            ping.name if meta.kind == "named ping" else None,
            str(ping.ping_id),
            ping.may_create,
        )

    async def apply_reports(self, reports: Sequence[_Received], progress: Progress, log: str) -> None:
        await self._keep_intake_clock(reports)
        reports = await self._find_named(
            [report for report in reports if report.heartbeat_id != INTAKE_MONITOR or report.name is not None]
        )
        await self._store_log(reports)
        reports = [report for report in reports if report.signal != "log"]
        if not reports:
            await self._states.note_progress(progress)
            return
        run_ids: dict[int, set[str]] = {}
        for report in reports:
            run_ids.setdefault(report.heartbeat_id, set()).add(report.run_id)
        intake_ms = await self._read_intake_clock(max(report.received_ms for report in reports))
        await self._states.change(run_ids, partial(_apply_signals, reports, log, intake_ms), progress)

    async def _find_named(self, reports: list[_Received]) -> list[_Received]:
        """Create the heartbeats of new names. Return the reports with the IDs of their heartbeats. This happens before
        the signals are applied: a chunk that is read again then finds the heartbeats, even if they were renamed
        since."""
        requested: dict[tuple[str, str, str], NamedHeartbeat] = {}
        for report in reports:
            if report.name is not None:
                created_ms = report.received_ms if report.may_create else None
                named = NamedHeartbeat(report.environment_id, report.name, created_ms, report.entry_id)
                # Record each ping that may create a heartbeat. Of the other pings, one for each name is enough.
                ping_id = report.entry_id if report.may_create else ""
                requested.setdefault((report.environment_id, report.name, ping_id), named)
        if not requested:
            return reports
        ids = await self._states.find_or_create(list(requested.values()))
        if missing := {(environment, name) for environment, name, _ in requested} - ids.keys():
            logger.warning(
                "ignored pings for %d names: the heartbeats were removed, or their environment has no room",
                len(missing),
            )
        return [
            report
            if report.name is None
            else report._replace(heartbeat_id=ids[report.environment_id, report.name])
            for report in reports
            if report.name is None or (report.environment_id, report.name) in ids
        ]

    async def _store_log(self, reports: Sequence[_Received]) -> None:
        entries = [
            LogEntry(
                report.heartbeat_id,
                report.environment_id,
                report.entry_id,
                None if report.unpaired else report.run_id,
                report.received_ms,
                report.output,
            )
            for report in reports
            if report.signal == "log"
        ]
        if entries:
            await self._states.add_log_entries(entries)

    async def _keep_intake_clock(self, reports: Sequence[_Received]) -> None:
        """Find gaps in which no edge accepted signals. Call this first, so that no signal is applied before the
        deadlines have moved. A signal from before the gap that is applied later meets the moved deadlines as well."""
        for report in reports:
            is_clock = report.heartbeat_id == INTAKE_MONITOR and report.name is None
            if not is_clock or report.received_ms - self._kept_ms < _CLOCK_MS:
                continue
            gap = await self._states.keep_clock(INTAKE_CLOCK, report.received_ms)
            self._kept_ms = report.received_ms
            if gap is not None:
                logger.warning(
                    "no edge accepted signals for %.0f s: deadlines of heartbeats move by it",
                    gap.length_ms / 1000,
                )

    async def _read_intake_clock(self, newest_ms: int) -> int | None:
        """Return the time at which an edge last reported that it accepts signals, as far as reports are applied. None
        if edges do not report. `newest_ms`: the time of the newest signal."""
        is_known = newest_ms - self._kept_ms <= _READ_CLOCK_MS
        # Compare in both directions, because a signal may come from an edge whose clock is ahead.
        if not is_known and abs(newest_ms - self._read_for_ms) > _READ_CLOCK_MS:
            clock = await self._states.read_progress(INTAKE_CLOCK)
            self._intake_ms = max(clock.values(), default=None)
            self._read_for_ms = newest_ms
        return max(self._intake_ms or 0, self._kept_ms) or None


def _apply_signals(
    reports: Sequence[_Received], log: str, intake_ms: int | None, watched: Mapping[int, Watched]
) -> list[Watched]:
    """Apply the signals in order. No signal may be of the kind `log`. Return the heartbeats that they have changed."""
    changed: dict[int, Watched] = {}
    written: set[tuple[int, str]] = set()
    for report in reports:
        found = watched.get(report.heartbeat_id)
        if found is None or found.heartbeat.environment_id != report.environment_id:
            logger.warning("ignored a signal for heartbeat %d, which does not exist", report.heartbeat_id)
            continue
        run_id, signal = report.run_id, cast(Signal, report.signal)
        if report.unpaired:
            paired = _find_run(found.heartbeat, report, log, intake_ms)
            if paired is None:
                continue
            run_id = paired
            # The pairing of pings with runs must be stored, whatever the ping reported.
            changed[report.heartbeat_id] = found
        run = found.runs.get(run_id)
        if run is None:
            run = found.runs[run_id] = Run(run_id, report.received_ms)
        if apply_signal(found.heartbeat, run, signal, report.received_ms, intake_ms):
            record_output(run, signal, report.exit_status, report.output)
            if (report.heartbeat_id, run_id) not in written:
                written.add((report.heartbeat_id, run_id))
                found.changed.append(run)
            changed[report.heartbeat_id] = found
        if report.heartbeat_id in changed:
            # Do this before the next signal, because it changes the heartbeat's deadlines.
            update_state(found.heartbeat, report.received_ms)
    return list(changed.values())


def _find_run(heartbeat: Heartbeat, report: _Received, log: str, intake_ms: int | None) -> str | None:
    """Return the run to which a ping without a run ID belongs. None if the ping was applied before."""
    if heartbeat.pings is None:
        heartbeat.pings = PingPairs()
    ping = UnpairedPing(report.run_id, cast(Signal, report.signal), report.received_ms, log, report.offset)
    within_ms = repeat_window_ms(heartbeat.schedule.period_seconds)
    run_id = assign_run(heartbeat.pings, ping, within_ms, heartbeat.max_runtime_ms)
    if run_id is not None:
        # A repeated ping adds nothing to its run, but shows that the job is alive.
        note_signal(heartbeat, report.received_ms, intake_ms)
    return run_id
