"""The blocks in which the rows of a chunk are inserted: as few as there can be, cut at the same places each time.

A record whose rows do not go into one block is split into pieces, which are inserted in their order. So the rows of a
record that a table has are always its first ones, and their number says what is missing.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from consumers.chunk import RecordRows
from storage_backends.column_store.insert_settings import MAX_BYTES, MAX_ROWS

MOST_MADE_BYTES = 16 * 2**20
"""Of a block with rows that are made when it is inserted: no more of them are in memory."""


class Piece(NamedTuple):
    """Some rows of a record, JSON lines; `first` of its rows come before them."""

    offset: int
    first: int
    lines: bytes
    rows: int
    is_splittable: bool = False
    """As `RecordRows` has it."""


def blocks_of(parts: Sequence[RecordRows]) -> Iterator[list[Piece]]:
    """The rows of the records, in their order, by blocks; in a block, a record has one piece. A piece that is too large
    for a block is one of its own, which the store refuses."""
    block: list[Piece] = []
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


def missing_of(pieces: Sequence[Piece], stored: Mapping[int, int]) -> list[Piece]:
    """Return the pieces that are not stored yet, given how many rows of each record are stored."""
    if not stored:
        return list(pieces)
    return [rest for piece in pieces if (rest := _rest(piece, stored.get(piece.offset, 0) - piece.first))]


def _rest(piece: Piece, stored: int) -> Piece | None:
    """The piece without its first `stored` rows."""
    if stored <= 0:
        return piece
    if stored >= piece.rows or not piece.is_splittable:
        return None
    lines = piece.lines.split(b"\n", stored)[stored]
    return piece._replace(first=piece.first + stored, lines=lines, rows=piece.rows - stored)


def _joined(block: list[Piece]) -> list[Piece]:
    """With one piece for each record: a block that the store refuses is halved between records only."""
    joined: list[Piece] = []
    for _, some in groupby(block, attrgetter("offset")):
        pieces = list(some)
        if len(pieces) == 1:
            joined += pieces
        else:
            lines = b"".join([piece.lines for piece in pieces])
            joined.append(pieces[0]._replace(lines=lines, rows=sum(piece.rows for piece in pieces)))
    return joined


def _pieces_of(parts: Sequence[RecordRows]) -> Iterator[tuple[Piece, bool]]:
    """The pieces of all records, and whether they are made now."""
    for part in parts:
        if part.make is None:
            yield Piece(part.offset, 0, part.lines, part.rows, part.is_splittable), False
            continue
        first = 0
        for lines, rows in part.make():
            yield Piece(part.offset, first, lines, rows, part.is_splittable), True
            first += rows
