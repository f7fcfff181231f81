"""Inserts the rows of a chunk so that each record is there once, also when it was tried before.

The de-duplication token alone does not carry that: the engine writes the part and the token one after the
other, so a process that is killed between the two leaves a part without a token or a token without a part.
Therefore a chunk that may have been tried before is first held against what the table has.
"""

import logging
import uuid

from analytics_queries.refill_trace_times import refill_trace_times
from analytics_queries.stored_offsets import stored_offsets
from consumers.blocks import blocks_of, missing_of, size_of
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
        # Kept apart: a row about a record that an earlier table has refused is still inserted.
        refused_here: dict[int, str] = {}
        await _insert_table(
            store, chunk, table, parts, refused_here, tried_before=tried_before, on_step=on_step
        )
        if tried_before and table in _REFILLS:
            await _REFILLS[table](store, chunk.log, chunk.start, chunk.end)
        refused = {**refused_here, **refused}
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
    on_step: OnStep,
) -> None:
    token = f"{chunk.log}/{chunk.start}-{chunk.end}/{table}"
    stored: dict[int, int] = {}
    if tried_before and parts:
        stored = await stored_offsets(store, table, chunk.log, chunk.start, chunk.end)
    for number, block in enumerate(blocks_of(parts)):
        if number:
            # Of a record whose first rows are refused, no more is inserted: what is there are always its first rows.
            block = [piece for piece in block if piece.offset not in refused]
            if not block:
                continue
            await on_step(f"between blocks {table}")
        missing = missing_of(block, stored)
        # As a rule there is one block, with the chunk's own token.
        name = f"{token}/{block[0].offset}+{block[0].first}" if number else token
        await _insert_pieces(store, table, missing, name, refused)
        if tried_before:
            await _make_sure(store, chunk, table, missing, name, refused)


async def _make_sure(
    store: ColumnStore,
    chunk: Chunk,
    table: str,
    pieces: list[RecordRows],
    token: str,
    refused: dict[int, str],
) -> None:
    """Insert what the table does not show after an insert.

    The engine may have remembered the token of an insert whose part was lost: then it has dropped this one. The same
    can happen with the second token, but not with one that was never used: rows that are not there after that one were
    past the retention of the table, and the engine has removed them at once.
    """
    for other in ("again", uuid.uuid4().hex):
        if refused:
            pieces = [piece for piece in pieces if piece.offset not in refused]
        if not pieces:
            return
        pieces = missing_of(pieces, await stored_offsets(store, table, chunk.log, chunk.start, chunk.end))
        if not pieces:
            return
        logger.warning("%s: rows of a known token were not there; inserting %d pieces", token, len(pieces))
        await _insert_pieces(store, table, pieces, f"{token}/{other}", refused)


async def _insert_pieces(
    store: ColumnStore, table: str, pieces: list[RecordRows], token: str, refused: dict[int, str]
) -> None:
    """Insert as one block; where the store refuses it, halve until the records at fault are alone."""
    if refused:
        pieces = [piece for piece in pieces if piece.offset not in refused]
    if not pieces:
        return
    rows, size = size_of(pieces)
    try:
        if rows > MAX_ROWS or size > MAX_BYTES:
            raise RowsRefused(f"{rows} rows, {size} bytes: more than one block holds.")
        await store.insert(table, b"".join([piece.lines for piece in pieces]), rows, token)
    except RowsRefused as error:
        if len(pieces) == 1:
            first = pieces[0].first
            before = f" The {first} rows before them are stored." if first else ""
            refused[pieces[0].offset] = f"{error}{before}"
            return
        middle = len(pieces) // 2
        for half in (pieces[:middle], pieces[middle:]):
            await _insert_pieces(store, table, half, f"{token}/{half[0].offset}-{half[-1].offset}", refused)


def _told(chunk: Chunk, refused: dict[int, str], transform: Transform, table: str) -> list[RecordRows]:
    told = [
        transform.refused(record, refused[record.offset], chunk.log)
        for record in chunk.records
        if record.offset in refused
    ]
    return [row for found in told if found is not None and found[0] == table for row in [found[1]]]
