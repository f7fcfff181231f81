"""Applies signals and pings to the runs and states of heartbeats. It makes no rows, so heartbeats work without the
column store."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from consumers.transforms.monitor_topic import MonitorTopic
from pipeline_contracts import topics
from pipeline_contracts.heartbeat_runs import Run, take_output
from pipeline_contracts.heartbeat_states import Heartbeat, hear, settle, take_signal
from pipeline_contracts.monitors import HeartbeatSignal, Ping, Signal, decode_monitor_meta
from pipeline_contracts.ping_pairs import PingPairs, UnpairedPing, repeat_ms, run_of_ping
from pipeline_contracts.records import LogRecord
from storage_backends.monitor_states.interface import Progress, Watched

logger = logging.getLogger(__name__)

_decode = msgspec.json.Decoder(HeartbeatSignal).decode
_decode_ping = msgspec.json.Decoder(Ping).decode


class _Received(NamedTuple):
    heartbeat_id: int
    environment_id: str
    run_id: str
    """The ping's own ID if the ping names no run: a new run gets this ID."""
    signal: Signal
    received_ms: int
    unpaired: bool = False
    offset: int = 0
    exit_status: int | None = None
    output: str | None = None


class HeartbeatsTopic(MonitorTopic[_Received]):
    """The transform of `topics.HEARTBEATS`."""

    topic = topics.HEARTBEATS
    report_noun = "signal"

    def decode(self, record: LogRecord) -> _Received:
        meta = decode_monitor_meta(record.meta)
        if meta.kind != "ping":
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
        )

    async def apply_reports(self, reports: Sequence[_Received], progress: Progress, log: str) -> None:
        run_ids: dict[int, set[str]] = {}
        for report in reports:
            run_ids.setdefault(report.heartbeat_id, set()).add(report.run_id)
        await self._states.change(run_ids, partial(_apply_signals, reports, log), progress)


def _apply_signals(reports: Sequence[_Received], log: str, watched: Mapping[int, Watched]) -> list[Watched]:
    """Apply the signals in order, and return the heartbeats that they have changed."""
    changed: dict[int, Watched] = {}
    written: set[tuple[int, str]] = set()
    for report in reports:
        found = watched.get(report.heartbeat_id)
        if found is None or found.heartbeat.environment_id != report.environment_id:
            logger.warning("ignored a signal for heartbeat %d, which does not exist", report.heartbeat_id)
            continue
        run_id = report.run_id
        if report.unpaired:
            paired = _find_run(found.heartbeat, report, log)
            if paired is None:
                continue
            run_id = paired
            # The pairing state must be written, whatever the ping reported.
            changed[report.heartbeat_id] = found
        run = found.runs.get(run_id)
        if run is None:
            run = found.runs[run_id] = Run(run_id, report.received_ms)
        if take_signal(found.heartbeat, run, report.signal, report.received_ms):
            take_output(run, report.signal, report.exit_status, report.output)
            if (report.heartbeat_id, run_id) not in written:
                written.add((report.heartbeat_id, run_id))
                found.changed.append(run)
            changed[report.heartbeat_id] = found
        if report.heartbeat_id in changed:
            # Before the next signal: this changes the heartbeat's deadlines.
            settle(found.heartbeat, report.received_ms)
    return list(changed.values())


def _find_run(heartbeat: Heartbeat, report: _Received, log: str) -> str | None:
    """Return the run that an unpaired ping belongs to; None if the ping was applied before."""
    if heartbeat.pings is None:
        heartbeat.pings = PingPairs()
    ping = UnpairedPing(report.run_id, report.signal, report.received_ms, log, report.offset)
    within_ms = repeat_ms(heartbeat.schedule.period_seconds)
    run_id = run_of_ping(heartbeat.pings, ping, within_ms, heartbeat.max_runtime_ms)
    if run_id is not None:
        # A repeated ping adds nothing to its run, but shows that the job is alive.
        hear(heartbeat, report.received_ms)
    return run_id
