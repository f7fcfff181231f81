"""Inserts the rows of a chunk so that each record is there once, also when it was tried before.

The de-duplication token alone does not carry that: the engine writes the part and the token one after the
other, so a process that is killed between the two leaves a part without a token or a token without a part.
Therefore a chunk that may have been tried before is first held against what the table has.
"""

import logging
import uuid

from analytics_queries.refill_trace_times import refill_trace_times
from analytics_queries.stored_offsets import stored_offsets
from consumers.chunk import Chunk, DeadRecord, OnStep, RecordRows, Transform
from pipeline_contracts.errors import RowsRefused
from storage_backends.column_store.insert_settings import MAX_BYTES, MAX_ROWS
from storage_backends.column_store.interface import ColumnStore

logger = logging.getLogger(__name__)

# By table: what completes the target of its materialized view.
_REFILLS = {"pharos.otel_traces": refill_trace_times}


async def insert_chunk(
    store: ColumnStore,
    chunk: Chunk,
    tables: dict[str, list[RecordRows]],
    transform: Transform,
    *,
    tried_before: bool,
    on_step: OnStep,
) -> list[DeadRecord]:
    """Insert into the tables in their order; return the records that the store refuses.

    A table that comes after the refusal gets what `transform` tells of it instead of the record's rows.
    Raises `StorageUnavailable` when the outcome is open: call again with `tried_before`.
    """
    refused: dict[int, str] = {}
    for table, parts in tables.items():
        if refused:
            parts = [part for part in parts if part.offset not in refused]
            parts += _told(chunk, refused, transform, table)
        await on_step(f"before insert {table}")
        await _insert_table(store, chunk, table, parts, refused, tried_before=tried_before)
        if tried_before and table in _REFILLS:
            await _REFILLS[table](store, chunk.log, chunk.start, chunk.end)
    return [
        DeadRecord(record, refused[record.offset]) for record in chunk.records if record.offset in refused
    ]


async def _insert_table(
    store: ColumnStore,
    chunk: Chunk,
    table: str,
    parts: list[RecordRows],
    refused: dict[int, str],
    *,
    tried_before: bool,
) -> None:
    token = f"{chunk.log}/{chunk.start}-{chunk.end}/{table}"
    if tried_before:
        parts = await _missing(store, chunk, table, parts)
    await _insert_parts(store, table, parts, token, refused)
    if not tried_before:
        return
    # The engine may have remembered the token of an insert whose part was lost: then it has dropped this one. That can
    # be so of the second token, too, but not of one that was never used: rows that are not there after that one were
    # past the retention of the table, and the engine has removed them at once.
    for other in ("again", uuid.uuid4().hex):
        missing = [part for part in await _missing(store, chunk, table, parts) if part.offset not in refused]
        if not missing:
            return
        logger.warning("%s: %d records of a known token were not there; inserting them", token, len(missing))
        await _insert_parts(store, table, missing, f"{token}/{other}", refused)


async def _missing(store: ColumnStore, chunk: Chunk, table: str, parts: list[RecordRows]) -> list[RecordRows]:
    if not parts:
        return parts
    present = await stored_offsets(store, table, chunk.log, chunk.start, chunk.end)
    return [part for part in parts if part.offset not in present]


async def _insert_parts(
    store: ColumnStore, table: str, parts: list[RecordRows], token: str, refused: dict[int, str]
) -> None:
    """Insert as one block; where it is more than a block holds, or the store refuses it, halve until it fits or the
    records at fault are alone."""
    if not parts:
        return
    rows, size = sum(part.rows for part in parts), sum(len(part.lines) for part in parts)
    try:
        if rows > MAX_ROWS or size > MAX_BYTES:
            raise RowsRefused(f"{rows} rows, {size} bytes: more than one block holds.")
        await store.insert(table, b"".join([part.lines for part in parts]), rows, token)
    except RowsRefused as error:
        if len(parts) == 1:
            refused[parts[0].offset] = str(error)
            return
        middle = len(parts) // 2
        for half in (parts[:middle], parts[middle:]):
            await _insert_parts(store, table, half, f"{token}/{half[0].offset}-{half[-1].offset}", refused)


def _told(chunk: Chunk, refused: dict[int, str], transform: Transform, table: str) -> list[RecordRows]:
    told = [
        transform.refused(record, refused[record.offset], chunk.log)
        for record in chunk.records
        if record.offset in refused
    ]
    return [row for found in told if found is not None and found[0] == table for row in [found[1]]]
