"""What the signals of heartbeats become: runs, and the states of their heartbeats. No rows: jobs are watched whether
or not the column store is there."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from consumers.chunk import Chunk, ChunkRows, DeadRecord, RecordRows
from pipeline_contracts import topics
from pipeline_contracts.heartbeat_states import Run, settle, take_signal
from pipeline_contracts.monitors import HeartbeatSignal, MonitorMeta
from pipeline_contracts.records import LogRecord
from storage_backends.column_store.interface import ColumnStore
from storage_backends.monitor_states.interface import MonitorStates, Progress, Watched

logger = logging.getLogger(__name__)

_DAY_MS = 86_400_000
# In one transaction: other writers of the database wait for no longer than that takes.
_SIGNALS_AT_ONCE = 2000

_decode_meta = msgspec.msgpack.Decoder(MonitorMeta).decode
_decode = msgspec.json.Decoder(HeartbeatSignal).decode


@dataclass(frozen=True, slots=True)
class _Received:
    meta: MonitorMeta
    signal: HeartbeatSignal


class HeartbeatsTopic:
    """The transform of `topics.HEARTBEATS`."""

    topic = topics.HEARTBEATS
    follows_time = True

    def __init__(self, states: MonitorStates) -> None:
        self._states = states

    def weight(self, record: LogRecord) -> tuple[int, int]:
        return weigh(record)

    async def apply(self, chunk: Chunk, partition: int) -> None:
        received = [read for record in chunk.records if isinstance(read := _read(record), _Received)]
        for begin in range(0, len(received), _SIGNALS_AT_ONCE):
            part = received[begin : begin + _SIGNALS_AT_ONCE]
            through_ms = max(one.meta.received_ms for one in part)
            wanted: dict[int, set[str]] = {}
            for one in part:
                wanted.setdefault(one.meta.monitor, set()).add(str(one.signal.run_id))
            await self._states.change(
                wanted, partial(_take, part), Progress(self.topic, partition, through_ms)
            )

    async def caught_up(self, partition: int, as_of_ms: int) -> None:
        await self._states.note_progress(Progress(self.topic, partition, as_of_ms))

    async def rows(self, chunk: Chunk, store: ColumnStore) -> ChunkRows:
        return ChunkRows(dead=dead_records(chunk.records))

    def refused(self, record: LogRecord, reason: str, log: str) -> tuple[str, RecordRows] | None:
        return None


def weigh(record: LogRecord) -> tuple[int, int]:
    """Of a record of any monitor, as `Transform.weight` has it."""
    try:
        return (1, _decode_meta(record.meta).received_ms // _DAY_MS)
    except msgspec.DecodeError:
        return (0, -1)


def dead_records(records: Iterable[LogRecord]) -> list[DeadRecord]:
    """Those that cannot be read as signals of heartbeats."""
    return [DeadRecord(record, reason) for record in records if isinstance(reason := _read(record), str)]


def _read(record: LogRecord) -> "_Received | str":
    """The signal, or why it cannot be read."""
    try:
        return _Received(_decode_meta(record.meta), _decode(record.value))
    except msgspec.DecodeError as error:
        return f"The signal cannot be read: {error}"


def _take(received: Sequence[_Received], watched: Mapping[int, Watched]) -> list[Watched]:
    """Apply the signals in their order; gives the heartbeats that they have changed."""
    changed: dict[int, tuple[Watched, int]] = {}
    written: set[tuple[int, str]] = set()
    for one in received:
        found = watched.get(one.meta.monitor)
        if found is None or found.heartbeat.environment_id != one.meta.environment_id:
            logger.warning("a signal for heartbeat %d, which there is not: left out", one.meta.monitor)
            continue
        run_id, at_ms = str(one.signal.run_id), one.meta.received_ms
        run = found.runs.get(run_id)
        if run is None:
            run = found.runs[run_id] = Run(run_id, at_ms)
        if take_signal(found.heartbeat, run, one.signal.signal, at_ms):
            if (one.meta.monitor, run_id) not in written:
                written.add((one.meta.monitor, run_id))
                found.changed.append(run)
            changed[found.heartbeat.heartbeat_id] = found, at_ms
    for found, at_ms in changed.values():
        settle(found.heartbeat, at_ms)
    return [found for found, _ in changed.values()]
