"""Base class of the transforms of monitors. They first update the current state, which does not need the column
store, and then make rows."""

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

# Limits how long other writers of the database wait for one transaction.
_MAX_REPORTS_PER_TRANSACTION = 2000

_encode = msgspec.json.Encoder().encode


R = TypeVar("R", bound=Received)


class MonitorTopic(ABC, Generic[R]):
    """The transform of a topic in which each record has one report of the type `R`."""

    topic: str
    report_noun = "report"
    """What a report is called in the reason of a dead letter."""
    needs_caught_up = True

    def __init__(self, states: MonitorStates) -> None:
        self._states = states

    @abstractmethod
    def decode(self, record: LogRecord) -> R:
        """Decode the report in a record. Raises `msgspec.DecodeError`."""

    @abstractmethod
    async def apply_reports(self, reports: Sequence[R], progress: Progress, log: str) -> None:
        """Apply the reports to the current state in one transaction. `log`: the value of `Chunk.log`. Raises
        `StorageUnavailable`."""

    def history_row(self, report: R, log: str, offset: int) -> tuple[str, dict[str, Any]] | None:
        """Return the table for the history of a report, and the row for it. None if the report has no history."""
        return None

    def weight(self, record: LogRecord) -> tuple[int, int]:
        return weigh(record, decode_monitor_meta, lambda _: 1)

    async def update_state(self, chunk: Chunk, partition: int) -> None:
        reports = [
            report
            for record in chunk.records
            if not isinstance(report := self._decode_or_reason(record), str)
        ]
        for begin in range(0, len(reports), _MAX_REPORTS_PER_TRANSACTION):
            part = reports[begin : begin + _MAX_REPORTS_PER_TRANSACTION]
            through_ms = max(report.received_ms for report in part)
            await self.apply_reports(part, Progress(self.topic, partition, through_ms), chunk.log)

    async def record_caught_up(self, partition: int, as_of_ms: int) -> None:
        await self._states.note_progress(Progress(self.topic, partition, as_of_ms))

    async def make_rows(self, chunk: Chunk, store: ColumnStore) -> ChunkRows:
        result = ChunkRows()
        for record in chunk.records:
            report = self._decode_or_reason(record)
            if isinstance(report, str):
                result.dead.append(DeadRecord(record, report))
            elif (entry := self.history_row(report, chunk.log, record.offset)) is not None:
                table, row = entry
                rows = RecordRows(record.offset, _encode(row) + b"\n", 1)
                result.tables.setdefault(table, []).append(rows)
        return result

    def report_refusal(self, record: LogRecord, reason: str, log: str) -> tuple[str, RecordRows] | None:
        return None

    def _decode_or_reason(self, record: LogRecord) -> R | str:
        """Return the report. If it cannot be read, return the reason as text."""
        try:
            return call_with_deeper_stack(partial(self.decode, record))
        except (msgspec.DecodeError, RecursionError) as error:
            return f"The {self.report_noun} cannot be read: {error}"
