"""What the topics of monitors have in common: first present state, with the column store away too, then rows."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from consumers.chunk import Chunk, ChunkRows, DeadRecord, RecordRows
from consumers.deep_json import call_with_deeper_stack
from consumers.transforms.weight import Received, weigh
from pipeline_contracts.monitors import decode_monitor_meta
from pipeline_contracts.records import LogRecord
from storage_backends.column_store.interface import ColumnStore
from storage_backends.monitor_states.interface import MonitorStates, Progress

# In one transaction: other writers of the database wait for no longer than that takes.
_REPORTS_AT_ONCE = 2000

_encode = msgspec.json.Encoder().encode


R = TypeVar("R", bound=Received)


class MonitorTopic(ABC, Generic[R]):
    """The transform of a topic whose records each are one report, `R`."""

    topic: str
    report = "report"
    """What one is called where it cannot be read."""
    needs_caught_up = True

    def __init__(self, states: MonitorStates) -> None:
        self._states = states

    @abstractmethod
    def read(self, record: LogRecord) -> R:
        """The report in the record. Raises `msgspec.DecodeError`."""

    @abstractmethod
    async def change(self, reports: Sequence[R], progress: Progress, log: str) -> None:
        """Bring the present state up to date, in one transaction. `log` names the partition for good. Raises
        `StorageUnavailable`."""

    def row(self, report: R, log: str, offset: int) -> tuple[str, dict[str, Any]] | None:
        """The table and the row of a report, if it joins a history."""
        return None

    def weight(self, record: LogRecord) -> tuple[int, int]:
        return weigh(record, decode_monitor_meta, lambda _: 1)

    async def update_state(self, chunk: Chunk, partition: int) -> None:
        reports = [report for record in chunk.records if not isinstance(report := self._try(record), str)]
        for begin in range(0, len(reports), _REPORTS_AT_ONCE):
            part = reports[begin : begin + _REPORTS_AT_ONCE]
            through_ms = max(report.received_ms for report in part)
            await self.change(part, Progress(self.topic, partition, through_ms), chunk.log)

    async def record_caught_up(self, partition: int, as_of_ms: int) -> None:
        await self._states.note_progress(Progress(self.topic, partition, as_of_ms))

    async def make_rows(self, chunk: Chunk, store: ColumnStore) -> ChunkRows:
        result = ChunkRows()
        for record in chunk.records:
            report = self._try(record)
            if isinstance(report, str):
                result.dead.append(DeadRecord(record, report))
            elif (placed := self.row(report, chunk.log, record.offset)) is not None:
                table, row = placed
                rows = RecordRows(record.offset, _encode(row) + b"\n", 1)
                result.tables.setdefault(table, []).append(rows)
        return result

    def report_refusal(self, record: LogRecord, reason: str, log: str) -> tuple[str, RecordRows] | None:
        return None

    def _try(self, record: LogRecord) -> R | str:
        """The report, or why it cannot be read."""
        try:
            return call_with_deeper_stack(partial(self.read, record))
        except (msgspec.DecodeError, RecursionError) as error:
            return f"The {self.report} cannot be read: {error}"
