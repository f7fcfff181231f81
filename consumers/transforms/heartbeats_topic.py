"""What the signals of heartbeats become: runs, and the states of their heartbeats. No rows: jobs are watched whether
or not the column store is there."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from consumers.transforms.monitor_topic import MonitorTopic
from pipeline_contracts import topics
from pipeline_contracts.heartbeat_states import Run, settle, take_signal
from pipeline_contracts.monitors import HeartbeatSignal, Signal, decode_monitor_meta
from pipeline_contracts.records import LogRecord
from storage_backends.monitor_states.interface import Progress, Watched

logger = logging.getLogger(__name__)

_decode = msgspec.json.Decoder(HeartbeatSignal).decode


class _Received(NamedTuple):
    heartbeat_id: int
    environment_id: str
    run_id: str
    signal: Signal
    received_ms: int


class HeartbeatsTopic(MonitorTopic[_Received]):
    """The transform of `topics.HEARTBEATS`."""

    topic = topics.HEARTBEATS
    report = "signal"

    def read(self, record: LogRecord) -> _Received:
        meta, sent = decode_monitor_meta(record.meta), _decode(record.value)
        return _Received(meta.monitor, meta.environment_id, str(sent.run_id), sent.signal, meta.received_ms)

    async def change(self, reports: Sequence[_Received], progress: Progress) -> None:
        wanted: dict[int, set[str]] = {}
        for one in reports:
            wanted.setdefault(one.heartbeat_id, set()).add(one.run_id)
        await self._states.change(wanted, partial(_take, reports), progress)


def _take(received: Sequence[_Received], watched: Mapping[int, Watched]) -> list[Watched]:
    """Apply the signals in their order; gives the heartbeats that they have changed."""
    changed: dict[int, tuple[Watched, int]] = {}
    written: set[tuple[int, str]] = set()
    for heartbeat_id, environment_id, run_id, signal, at_ms in received:
        found = watched.get(heartbeat_id)
        if found is None or found.heartbeat.environment_id != environment_id:
            logger.warning("a signal for heartbeat %d, which there is not: left out", heartbeat_id)
            continue
        run = found.runs.get(run_id)
        if run is None:
            run = found.runs[run_id] = Run(run_id, at_ms)
        if take_signal(found.heartbeat, run, signal, at_ms):
            if (heartbeat_id, run_id) not in written:
                written.add((heartbeat_id, run_id))
                found.changed.append(run)
            changed[heartbeat_id] = found, at_ms
    for found, at_ms in changed.values():
        settle(found.heartbeat, at_ms)
    return [found for found, _ in changed.values()]
