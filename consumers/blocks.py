"""The blocks in which the rows of a chunk are inserted: as few as there can be, cut at the same places each time.

A record whose rows do not go into one block is split into pieces, which are inserted in their order. So the rows of a
record that a table has are always its first ones, and their number says what is missing.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from consumers.chunk import RecordRows
from storage_backends.column_store.insert_settings import MAX_BYTES, MAX_ROWS

MOST_MADE_BYTES = 16 * 2**20
"""Of a block with rows that are made when it is inserted: no more of them are in memory."""


_make = attrgetter("make")
_lines = attrgetter("lines")
_rows = attrgetter("rows")


def size_of(pieces: Sequence[RecordRows]) -> tuple[int, int]:
    """Rows and bytes of the pieces together."""
    return sum(map(_rows, pieces)), sum(map(len, map(_lines, pieces)))


def blocks_of(parts: Sequence[RecordRows]) -> Iterator[list[RecordRows]]:
    """The rows of the records, in their order, by blocks; in a block, a record has one piece. A piece that is too large
    for a block is one of its own, which the store refuses."""
    if parts and _are_one_block(parts):
        # As a rule. Records that are pieces already need not be copied.
        yield list(parts)
        return
    block: list[RecordRows] = []
    rows = size = 0
    for piece, is_made in _pieces_of(parts):
        most = MOST_MADE_BYTES if is_made else MAX_BYTES
        if block and (rows + piece.rows > MAX_ROWS or size + len(piece.lines) > most):
            yield _joined(block)
            block, rows, size = [], 0, 0
        block.append(piece)
        rows += piece.rows
        size += len(piece.lines)
    if block:
        yield _joined(block)


def _are_one_block(parts: Sequence[RecordRows]) -> bool:
    if any(map(_make, parts)):
        return False
    rows, size = size_of(parts)
    return rows <= MAX_ROWS and size <= MAX_BYTES


def missing_of(pieces: Sequence[RecordRows], stored: Mapping[int, int]) -> list[RecordRows]:
    """Return the pieces that are not stored yet, given how many rows of each record are stored."""
    if not stored:
        return list(pieces)
    missing = []
    for piece in pieces:
        there = stored.get(piece.offset, 0) - piece.first
        if there <= 0:
            missing.append(piece)
        elif there < piece.rows and piece.is_splittable:
            missing.append(_without_first(piece, there))
    return missing


def _without_first(piece: RecordRows, rows: int) -> RecordRows:
    lines = piece.lines.split(b"\n", rows)[rows]
    return piece._replace(first=piece.first + rows, lines=lines, rows=piece.rows - rows)


def _joined(block: list[RecordRows]) -> list[RecordRows]:
    """With one piece for each record: a block that the store refuses is halved between records only."""
    joined: list[RecordRows] = []
    for _, some in groupby(block, attrgetter("offset")):
        pieces = list(some)
        if len(pieces) == 1:
            joined += pieces
        else:
            lines = b"".join([piece.lines for piece in pieces])
            joined.append(pieces[0]._replace(lines=lines, rows=sum(piece.rows for piece in pieces)))
    return joined


def _pieces_of(parts: Sequence[RecordRows]) -> Iterator[tuple[RecordRows, bool]]:
    """The pieces of all records, and whether they are made now."""
    for part in parts:
        if part.make is None:
            yield part, False
            continue
        first = 0
        for lines, rows in part.make():
            yield part._replace(lines=lines, rows=rows, make=None, first=first), True
            first += rows
