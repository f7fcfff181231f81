"""Splitting a source into batches."""

import gzip
import io
import json
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operator_cli.ingest.sending import sources
from operator_cli.ingest.sending.batches import Batch, BatchSplitter, first_position
from operator_cli.ingest.sending.line_formats import FORMATS
from operator_cli.ingest.sending.sources import Source

LINE = '{"type":"log","id":"%d"}\n'


def split(
    path: Path, *, most: int = 3, planned: tuple[int, ...] = (), start: Batch | None = None
) -> list[Batch]:
    source = Source(str(path))
    try:
        begin = first_position("") if start is None else start.end
        return list(BatchSplitter(most, FORMATS["ndjson"]).split(source, begin, planned))
    finally:
        source.close()


def ids_of(batches: list[Batch]) -> list[str]:
    return [json.loads(event)["id"] for batch in batches for event in batch.events]


def test_the_body_contains_the_batch_id_and_unchanged_lines(tmp_path: Path) -> None:
    file = tmp_path / "events"
    file.write_text('{"type": "log",  "id":"ø"}\r\n{"type":"log","n":1}\n', encoding="utf-8")
    (batch,) = split(file)
    body = zlib.decompress(batch.body, wbits=31)
    assert b'{"type": "log",  "id":"\xc3\xb8"}' in body
    document = json.loads(body)
    assert document == {
        "batch_id": batch.id,
        "events": [{"type": "log", "id": "ø"}, {"type": "log", "n": 1}],
    }
    assert len(batch.id) <= 100


def test_splitting_again_gives_the_same_batches_from_any_position(tmp_path: Path) -> None:
    file = tmp_path / "events"
    file.write_text("".join(LINE % n for n in range(10)))
    batches = split(file)
    assert [len(batch.events) for batch in batches] == [3, 3, 3, 1]
    assert [batch.at_end for batch in batches] == [False, False, False, True]
    assert [batch.body for batch in split(file)] == [batch.body for batch in batches]
    assert [batch.body for batch in split(file, start=batches[1])] == [batch.body for batch in batches[2:]]


def test_a_short_batch_ends_at_the_same_offset_after_the_file_has_grown(tmp_path: Path) -> None:
    file = tmp_path / "events"
    file.write_text("".join(LINE % n for n in range(4)))
    before = split(file)
    with file.open("a") as more:
        more.writelines(LINE % n for n in range(4, 9))
    after = split(file, planned=(before[-1].end.offset,))
    assert [batch.body for batch in after[:2]] == [batch.body for batch in before]
    assert [len(batch.events) for batch in after] == [3, 1, 3, 2]
    # Without the short end the second batch would be different.
    assert split(file)[1].id != before[1].id


def test_files_share_batch_ids_up_to_the_first_difference(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("".join(LINE % n for n in (0, 1, 2, 3, 4, 5, 6, 7, 8)))
    (tmp_path / "two").write_text("".join(LINE % n for n in (0, 1, 2, 3, 9, 5, 6, 7, 8)))
    one, two = ([batch.id for batch in split(tmp_path / name)] for name in ("one", "two"))
    assert one[0] == two[0]
    assert one[1] != two[1]
    # The same three events at the same offset, but after other text.
    assert one[2] != two[2]


def test_lines_that_are_not_events_are_reported_by_number(tmp_path: Path) -> None:
    file = tmp_path / "events"
    lines = (
        b"\xef\xbb\xbf" + LINE.encode() % 1,
        b"\n",
        b"{oops\n",
        b"[]\n",
        b'{"id":"x"}\n',
        b'{"type":"\xff"}\n',
    )
    file.write_bytes(b"".join(lines) + b'{"type":"log"},{"type":"log"}\n' + LINE.encode() % 2)
    (batch,) = split(file, most=10)
    assert ids_of([batch]) == ["1", "2"]
    assert batch.lines == [1, 8]
    assert [fault.line for fault in batch.faults] == [3, 4, 5, 6, 7]
    assert [b.body for b in split(file, most=10)] == [batch.body]


def test_an_unfinished_line_is_left_for_later_unless_it_is_a_complete_object(tmp_path: Path) -> None:
    file = tmp_path / "events"
    file.write_text(LINE % 1 + '{"type":"log","id":"2')
    (batch,) = split(file)
    assert ids_of([batch]) == ["1"]
    assert batch.end.offset == len(LINE % 1)
    assert [fault.line for fault in batch.faults] == [2]
    with file.open("a") as more:
        more.write('2"}')
    (second,) = split(file, start=batch)
    assert ids_of([second]) == ["22"]
    with file.open("a") as more:
        more.write("\n" + LINE % 3 + "oops\n")
    (third,) = split(file, start=second)
    assert ids_of([third]) == ["3"]
    # The third batch starts with the end of the second line, which does not count as a line.
    assert third.lines == [3]
    assert [fault.line for fault in third.faults] == [4]


def test_a_single_unfinished_line_gives_an_empty_batch_without_progress(tmp_path: Path) -> None:
    file = tmp_path / "events"
    file.write_text('{"type":')
    (batch,) = split(file)
    assert batch.end == first_position("")
    assert not batch.events and not batch.at_end and len(batch.faults) == 1


def test_a_batch_contains_at_most_one_mebibyte_of_text(tmp_path: Path) -> None:
    file = tmp_path / "events"
    line = json.dumps({"type": "log", "id": "x", "details": "y" * 300_000}) + "\n"
    file.write_text(line * 8)
    assert [len(batch.events) for batch in split(file, most=1000)] == [3, 3, 2]


def test_a_line_that_is_too_long_is_not_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_MAX_LINE_LENGTH", 3 * 2**20)
    file = tmp_path / "events"
    file.write_text(LINE % 1 + "x" * (9 * 2**20 + 5) + "\n" + LINE % 2)
    batches = split(file, most=10)
    assert ids_of(batches) == ["1", "2"]
    assert [fault.line for batch in batches for fault in batch.faults] == [2]
    assert batches[-1].end.offset == file.stat().st_size
    assert [n for batch in batches for n in batch.lines] == [1, 3]
    content = file.read_bytes()
    for batch in batches:
        assert content[: batch.end.offset].endswith(batch.tail)


def test_compressed_and_plain_text_give_the_same_batches(tmp_path: Path) -> None:
    text = "".join(LINE % n for n in range(7)).encode()
    (tmp_path / "plain").write_bytes(text)
    (tmp_path / "packed").write_bytes(gzip.compress(text[:50]) + gzip.compress(text[50:]))
    plain, packed = split(tmp_path / "plain"), split(tmp_path / "packed")
    assert [batch.body for batch in plain] == [batch.body for batch in packed]
    assert [batch.at_end for batch in packed] == [False] * 3
    assert [batch.body for batch in split(tmp_path / "packed", start=packed[0])] == [
        batch.body for batch in packed[1:]
    ]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from([LINE % 1, LINE % 22222, "oops\n", "\n", '{"type":"log"}\r\n']), max_size=30),
    st.integers(1, 6),
    st.integers(1, 64),
)
def test_batches_cover_every_byte_once_for_any_block_size(lines: list[str], most: int, block: int) -> None:
    text = "".join(lines).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "_BLOCK", block)
        source = Source.__new__(Source)
        source.is_stream, source._reader, source._gzip, source._ahead = False, io.BytesIO(text), None, b""
        batches = list(BatchSplitter(most, FORMATS["ndjson"]).split(source, first_position(""), ()))
    offset = 0
    for batch in batches:
        assert batch.start == offset
        offset = batch.end.offset
        assert text[:offset].endswith(batch.tail)
    assert offset == len(text)
    assert sum(len(batch.events) for batch in batches) == sum(line.startswith("{") for line in lines)
    assert len({batch.id for batch in batches}) == len(batches)
