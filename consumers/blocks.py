"""Splits the rows of a chunk into as few insert blocks as possible, at the same positions on each attempt.

A record whose rows do not fit into one block is split into pieces, which are inserted in order. So if a table has only
some rows of such a record, these are its first rows, and their number shows which rows are missing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from msgspec.structs import replace

from consumers.chunk import RecordRows
from storage_backends.column_store.insert_settings import MAX_BYTES, MAX_ROWS
from storage_backends.column_store.interface import Lines

MAX_GENERATED_BYTES = 16 * 2**20
"""Maximum size in bytes of a block whose rows are generated during the insert. It limits their memory."""

# Number of pieces to join before they are sent. A buffer of more than 32 MB, as for a whole chunk, would be mapped anew
# each time: its page faults would take a fifth of a consumer's CPU time.
_JOINED_PIECES = 128

_generate = attrgetter("generate")
_lines = attrgetter("lines")
_rows = attrgetter("rows")


def total_rows(pieces: Iterable[RecordRows]) -> int:
    """Return how many rows all pieces have together."""
    return sum(map(_rows, pieces))


def join_lines(pieces: Sequence[RecordRows]) -> Lines:
    """Return the lines of all pieces. Pieces are joined in groups."""
    if len(pieces) <= _JOINED_PIECES:
        return b"".join(map(_lines, pieces))
    return [
        b"".join(map(_lines, pieces[begin : begin + _JOINED_PIECES]))
        for begin in range(0, len(pieces), _JOINED_PIECES)
    ]


def split_into_blocks(parts: Sequence[RecordRows]) -> Iterator[list[RecordRows]]:
    """Yield blocks: lists with the rows of records, in order, and one piece per record. A piece that is too large for
    any block gets a block of its own, which the store refuses."""
    if parts and _fit_one_block(parts):
        # In this usual case, no lines are copied.
        yield list(parts)
        return
    block: list[RecordRows] = []
    rows = size = 0
    for piece, is_generated in _expand(parts):
        max_bytes = MAX_GENERATED_BYTES if is_generated else MAX_BYTES
        if block and (rows + piece.rows > MAX_ROWS or size + len(piece.lines) > max_bytes):
            yield _join_by_record(block)
            block, rows, size = [], 0, 0
        block.append(piece)
        rows += piece.rows
        size += len(piece.lines)
    if block:
        yield _join_by_record(block)


def _fit_one_block(parts: Sequence[RecordRows]) -> bool:
    if any(map(_generate, parts)):
        return False
    return total_rows(parts) <= MAX_ROWS and sum(map(len, map(_lines, parts))) <= MAX_BYTES


def find_missing(pieces: Sequence[RecordRows], stored: Mapping[int, int]) -> list[RecordRows]:
    """Return the pieces that are not stored yet, given how many rows of each record are stored."""
    if not stored:
        return list(pieces)
    missing = []
    for piece in pieces:
        stored_rows = stored.get(piece.offset, 0) - piece.first_row
        if stored_rows <= 0:
            missing.append(piece)
        elif stored_rows < piece.rows and piece.is_splittable:
            missing.append(_drop_first_rows(piece, stored_rows))
    return missing


def _drop_first_rows(piece: RecordRows, rows: int) -> RecordRows:
    lines = piece.lines.split(b"\n", rows)[rows]
    return replace(piece, first_row=piece.first_row + rows, lines=lines, rows=piece.rows - rows)


def _join_by_record(block: list[RecordRows]) -> list[RecordRows]:
    """Join the pieces of each record in the block. A block that the store refuses is then halved only between two
    records."""
    joined: list[RecordRows] = []
    for _, group in groupby(block, attrgetter("offset")):
        pieces = list(group)
        if len(pieces) == 1:
            joined += pieces
        else:
            lines = b"".join([piece.lines for piece in pieces])
            joined.append(replace(pieces[0], lines=lines, rows=sum(piece.rows for piece in pieces)))
    return joined


def _expand(parts: Sequence[RecordRows]) -> Iterator[tuple[RecordRows, bool]]:
    """Yield the pieces of all records. The second value is True if the piece was generated here."""
    for part in parts:
        if part.generate is None:
            yield part, False
            continue
        first_row = 0
        for lines, rows in part.generate():
            yield replace(part, lines=lines, rows=rows, generate=None, first_row=first_row), True
            first_row += rows
