"""Inserts the rows of a chunk so that each record is stored exactly once, even if earlier attempts have inserted some
rows.

The deduplication token alone does not guarantee this. The engine writes the data part and the token one after the
other, so a process that is killed in between leaves a part without a token or a token without a part. A chunk that
may have been tried before is therefore compared with the table first.
"""

import logging
import uuid

from analytics_queries.refill_exceptions import TABLES as _EXCEPTION_TABLES
from analytics_queries.refill_exceptions import refill_exceptions
from analytics_queries.refill_trace_times import refill_trace_times
from analytics_queries.stored_offsets import stored_offsets
from consumers.blocks import find_missing, join_lines, split_into_blocks, total_rows
from consumers.chunk import Chunk, DeadRecord, OnStep, RecordRows, Transform
from pipeline_contracts.errors import RowsRefused
from storage_backends.column_store.insert_settings import MAX_BYTES, MAX_ROWS
from storage_backends.column_store.interface import ColumnStore, bytes_of

logger = logging.getLogger(__name__)


async def insert_chunk(
    store: ColumnStore,
    chunk: Chunk,
    tables: dict[str, list[RecordRows]],
    transform: Transform,
    *,
    tried_before: bool,
    on_step: OnStep,
) -> list[DeadRecord]:
    """Insert the rows of the chunk, table by table, and return the records that the store refuses.

    After a table has refused a record, the following tables get the row of `transform.report_refusal` instead of the
    record's rows. Raises `StorageUnavailable` when the outcome is unknown: call again with `tried_before`.
    """
    refused: dict[int, str] = {}
    for table, parts in tables.items():
        if refused:
            parts = [part for part in parts if part.offset not in refused]
            parts += _refusal_rows(chunk, refused, transform, table)
        await on_step(f"before insert {table}")
        # Keep this separate from `refused`: if an earlier table has refused a record, its report must still be
        # inserted.
        refused_here: dict[int, str] = {}
        await _insert_table(
            store, chunk, table, parts, refused_here, tried_before=tried_before, on_step=on_step
        )
        if tried_before:
            await _refill_views(store, table, chunk)
        refused = {**refused_here, **refused}
    return [
        DeadRecord(record, refused[record.offset]) for record in chunk.records if record.offset in refused
    ]


async def _refill_views(store: ColumnStore, table: str, chunk: Chunk) -> None:
    """Complete the tables that materialized views fill from this table: an interrupted insert may have left out some
    of their rows."""
    if table == "pharos.otel_traces":
        await refill_trace_times(store, chunk.log, chunk.start, chunk.end)
    if table in _EXCEPTION_TABLES:
        await refill_exceptions(store, table, chunk.log, chunk.start, chunk.end)


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
    for number, block in enumerate(split_into_blocks(parts)):
        if number:
            # Skip later rows of a refused record: a table may only have the first rows of a record.
            block = [piece for piece in block if piece.offset not in refused]
            if not block:
                continue
            await on_step(f"between blocks {table}")
        missing = find_missing(block, stored)
        # Usually there is one block. It has the token of the chunk.
        block_token = f"{token}/{block[0].offset}+{block[0].first_row}" if number else token
        await _insert_pieces(store, table, missing, block_token, refused)
        if tried_before:
            await _insert_lost_pieces(store, chunk, table, missing, block_token, refused)


async def _insert_lost_pieces(
    store: ColumnStore,
    chunk: Chunk,
    table: str,
    pieces: list[RecordRows],
    token: str,
    refused: dict[int, str],
) -> None:
    """Insert pieces again that are missing in the table after their insert.

    The engine drops an insert whose token it knows, even if the data part of the first insert was lost. The engine
    may know the second token for the same reason; the third token is random. Rows that are still missing then have
    expired by the table's retention: the engine has removed them at once.
    """
    for suffix in ("again", uuid.uuid4().hex):
        if refused:
            pieces = [piece for piece in pieces if piece.offset not in refused]
        if not pieces:
            return
        pieces = find_missing(pieces, await stored_offsets(store, table, chunk.log, chunk.start, chunk.end))
        if not pieces:
            return
        logger.warning(
            "%s: the engine knew the token, but %d pieces are missing; inserting them", token, len(pieces)
        )
        await _insert_pieces(store, table, pieces, f"{token}/{suffix}", refused)


async def _insert_pieces(
    store: ColumnStore, table: str, pieces: list[RecordRows], token: str, refused: dict[int, str]
) -> None:
    """Insert the pieces as one block. If the store refuses a block, halve it until the faulty records are found."""
    if refused:
        pieces = [piece for piece in pieces if piece.offset not in refused]
    if not pieces:
        return
    lines, rows = join_lines(pieces), total_rows(pieces)
    size = bytes_of(lines)
    try:
        if rows > MAX_ROWS or size > MAX_BYTES:
            raise RowsRefused(
                f"{rows} rows with {size} bytes exceed a block ({MAX_ROWS} rows, {MAX_BYTES} bytes)."
            )
        await store.insert(table, lines, rows, token)
    except RowsRefused as error:
        if len(pieces) == 1:
            first = pieces[0].first_row
            stored = f" The {first} rows before them are stored." if first else ""
            refused[pieces[0].offset] = f"{error}{stored}"
            return
        middle = len(pieces) // 2
        for half in (pieces[:middle], pieces[middle:]):
            await _insert_pieces(store, table, half, f"{token}/{half[0].offset}-{half[-1].offset}", refused)


def _refusal_rows(
    chunk: Chunk, refused: dict[int, str], transform: Transform, table: str
) -> list[RecordRows]:
    reports = [
        transform.report_refusal(record, refused[record.offset], chunk.log)
        for record in chunk.records
        if record.offset in refused
    ]
    return [report[1] for report in reports if report is not None and report[0] == table]
