"""Splitting the rows of a chunk into blocks, and finding the rows that an earlier attempt did not store."""

from collections.abc import Iterator, Sequence

import pytest
from msgspec.structs import replace

from consumers import blocks
from consumers.blocks import find_missing, split_into_blocks
from consumers.chunk import RecordRows


def buffered(offset: int, rows: int) -> RecordRows:
    """Return a record whose rows are in memory, ten bytes each."""
    return RecordRows(offset, b"123456789\n" * rows, rows)


def generated(offset: int, *pieces: int) -> RecordRows:
    """Return a record whose rows are generated in pieces of these sizes."""

    def generate() -> Iterator[tuple[bytes, int]]:
        for rows in pieces:
            yield b"123456789\n" * rows, rows

    return RecordRows(offset, b"", sum(pieces), generate, is_splittable=True)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([], []),
        ([buffered(1, 3), buffered(2, 7)], [[(1, 0, 3), (2, 0, 7)]]),
        # Bytes: ten rows in memory, four generated ones.
        ([buffered(1, 6), buffered(2, 5)], [[(1, 0, 6)], [(2, 0, 5)]]),
        ([generated(1, 2, 2, 2)], [[(1, 0, 4)], [(1, 4, 2)]]),
        ([generated(1, 3, 3, 3)], [[(1, 0, 3)], [(1, 3, 3)], [(1, 6, 3)]]),
        ([generated(1, 1, 1), generated(2, 1, 2)], [[(1, 0, 2), (2, 0, 1)], [(2, 1, 2)]]),
        ([buffered(1, 8), generated(2, 1), buffered(3, 9)], [[(1, 0, 8)], [(2, 0, 1), (3, 0, 9)]]),
        # A record that fits no block gets a separate block, so that the store's refusal affects no other record.
        ([buffered(1, 1), buffered(2, 11), buffered(3, 1)], [[(1, 0, 1)], [(2, 0, 11)], [(3, 0, 1)]]),
        ([generated(1, 1, 9, 1)], [[(1, 0, 1)], [(1, 1, 9)], [(1, 10, 1)]]),
    ],
)
def test_rows_are_split_into_blocks_of_bounded_size(
    monkeypatch: pytest.MonkeyPatch,
    parts: Sequence[RecordRows],
    expected: list[list[tuple[int, int, int]]],
) -> None:
    monkeypatch.setattr(blocks, "MAX_BYTES", 100)
    monkeypatch.setattr(blocks, "MAX_GENERATED_BYTES", 40)
    found = list(split_into_blocks(parts))
    assert [[(piece.offset, piece.first_row, piece.rows) for piece in block] for block in found] == expected
    assert all(piece.lines == b"123456789\n" * piece.rows for block in found for piece in block)


def test_a_block_has_at_most_max_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "MAX_ROWS", 5)
    found = [
        [piece.offset for piece in block] for block in split_into_blocks([buffered(n, 2) for n in range(5)])
    ]
    assert found == [[0, 1], [2, 3], [4]]


_PIECE = RecordRows(7, b"a\nb\nc\n", 3, is_splittable=True, first_row=10)
# Page views can become more rows at the next attempt, and telemetry can have line breaks in a row.
_WHOLE = RecordRows(7, b'{"a":\n1}\n{"a":\n2}\n{"a":3}\n', 3)


@pytest.mark.parametrize(
    ("piece", "stored", "expected"),
    [
        (_PIECE, {}, [_PIECE]),
        (_PIECE, {6: 99}, [_PIECE]),
        (_PIECE, {7: 10}, [_PIECE]),
        (_PIECE, {7: 11}, [replace(_PIECE, first_row=11, lines=b"b\nc\n", rows=2)]),
        (_PIECE, {7: 12}, [replace(_PIECE, first_row=12, lines=b"c\n", rows=1)]),
        (_PIECE, {7: 13}, []),
        (_PIECE, {7: 99}, []),
        # Never inserted in parts: any stored row means all of them.
        (_WHOLE, {7: 0}, [_WHOLE]),
        (_WHOLE, {7: 1}, []),
    ],
)
def test_find_missing_returns_the_rows_that_are_not_stored(
    piece: RecordRows, stored: dict[int, int], expected: list[RecordRows]
) -> None:
    assert find_missing([piece], stored) == expected
