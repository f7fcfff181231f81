"""Turns the signals and pings of heartbeats into runs and states of heartbeats. No rows: jobs are watched
whether or not the column store is there."""

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
    """Of a ping that names no run: its own ID, which a new run gets."""
    signal: Signal
    received_ms: int
    unpaired: bool = False
    offset: int = 0
    exit_status: int | None = None
    output: str | None = None


class HeartbeatsTopic(MonitorTopic[_Received]):
    """The transform of `topics.HEARTBEATS`."""

    topic = topics.HEARTBEATS
    report = "signal"

    def read(self, record: LogRecord) -> _Received:
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

    async def change(self, reports: Sequence[_Received], progress: Progress, log: str) -> None:
        wanted: dict[int, set[str]] = {}
        for one in reports:
            wanted.setdefault(one.heartbeat_id, set()).add(one.run_id)
        await self._states.change(wanted, partial(_take, reports, log), progress)


def _take(received: Sequence[_Received], log: str, watched: Mapping[int, Watched]) -> list[Watched]:
    """Apply the signals in their order; gives the heartbeats that they have changed."""
    changed: dict[int, Watched] = {}
    written: set[tuple[int, str]] = set()
    for one in received:
        found = watched.get(one.heartbeat_id)
        if found is None or found.heartbeat.environment_id != one.environment_id:
            logger.warning("a signal for heartbeat %d, which there is not: left out", one.heartbeat_id)
            continue
        run_id = one.run_id
        if one.unpaired:
            paired = _pair(found.heartbeat, one, log)
            if paired is None:
                continue
            run_id = paired
            # The pairing state has to be written, whatever the ping reported.
            changed[one.heartbeat_id] = found
        run = found.runs.get(run_id)
        if run is None:
            run = found.runs[run_id] = Run(run_id, one.received_ms)
        if take_signal(found.heartbeat, run, one.signal, one.received_ms):
            take_output(run, one.signal, one.exit_status, one.output)
            if (one.heartbeat_id, run_id) not in written:
                written.add((one.heartbeat_id, run_id))
                found.changed.append(run)
            changed[one.heartbeat_id] = found
        if one.heartbeat_id in changed:
            # Each before the next: it changes what is due.
            settle(found.heartbeat, one.received_ms)
    return list(changed.values())


def _pair(heartbeat: Heartbeat, one: _Received, log: str) -> str | None:
    """The run of a ping that names none; None where it was applied before."""
    if heartbeat.pings is None:
        heartbeat.pings = PingPairs()
    ping = UnpairedPing(one.run_id, one.signal, one.received_ms, log, one.offset)
    within_ms = repeat_ms(heartbeat.schedule.period_seconds)
    run_id = run_of_ping(heartbeat.pings, ping, within_ms, heartbeat.max_runtime_ms)
    if run_id is not None:
        # A repeated ping adds nothing to its run, but shows that the job is alive.
        hear(heartbeat, one.received_ms)
    return run_id
