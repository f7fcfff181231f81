"""Split a source into batches. The same text from the same position gives the same batches with the same IDs."""

import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from operator_cli.ingest.sending.line_formats import BYTE_ORDER_MARK, BadLine, LineFormat
from operator_cli.ingest.sending.sources import Line, Source

# Text of a file in one batch: well below the server's limit, even though a log line grows when it becomes an event.
_MAX_BYTES = 2**20
_TAIL_BYTES = 1024
# Measured on telemetry and access logs: level 3 costs hardly more than 1 and makes bodies 5 to 14 times smaller;
# level 6 makes them a tenth smaller still for twice the CPU.
_COMPRESSION_LEVEL = 3


@dataclass(frozen=True, slots=True)
class Position:
    """A position between two lines of a source: bytes and lines before it, and the ID of the batch that ends there."""

    offset: int
    line: int
    batch_id: str


@dataclass(frozen=True, slots=True)
class Fault:
    """A line that is not sent, and why."""

    line: int
    reason: str


@dataclass(slots=True)
class Batch:
    """Consecutive lines.

    `lines[n]` is the line number of `events[n]`. `tail` is up to 1 KiB of text before the end. `at_end` is True if the
    source ended before the batch was full, and may grow.
    """

    start: int
    end: Position
    events: list[bytes]
    lines: list[int]
    faults: list[Fault]
    tail: bytes
    at_end: bool = False
    body: bytes = b""
    compressed_position: int | None = None

    @property
    def id(self) -> str:
        return self.end.batch_id

    def drop_events(self) -> None:
        """Free the memory of delivered events."""
        self.events, self.lines, self.body = [], [], b""


def first_position(seed: str) -> Position:
    """Return the beginning of a source. A different seed gives different batch IDs."""
    return Position(0, 0, hashlib.blake2b(seed.encode(), digest_size=20, person=b"pharos-send").hexdigest())


def encode_body(batch_id: str, events: Sequence[bytes]) -> bytes:
    """Return the gzip body of an ingest request from events in JSON."""
    text = b'{"batch_id":%b,"events":[%b]}' % (json.dumps(batch_id).encode(), b",".join(events))
    return zlib.compress(text, _COMPRESSION_LEVEL, wbits=31)


def derive_batch_id(batch_id: str, indexes: Sequence[int]) -> str:
    """Return the ID of a part of a batch, which depends only on the indexes of its events."""
    text = f"{batch_id}:{','.join(map(str, indexes))}"
    return "send-" + hashlib.blake2b(text.encode(), digest_size=20, person=b"pharos-part").hexdigest()


def _batch_id(before: Position, end: int, text: bytes) -> str:
    """Return the digest of the batch's text, chained to the previous ID and so to all text and splits before it.

    Two files share IDs up to the first difference.
    """
    digest = hashlib.blake2b(digest_size=20, person=b"pharos-send")
    digest.update(f"{before.batch_id}:{before.offset}:{end}:".encode())
    digest.update(text)
    return "send-" + digest.hexdigest()


@dataclass(slots=True)
class _OpenBatch:
    """A batch that is being filled."""

    before: Position
    offset: int
    line: int
    raw: list[bytes] = field(default_factory=list)
    ended: bool = True
    events: list[bytes] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def finish(self) -> Batch:
        end, text = self.before, b""
        if self.raw:
            text = b"\n".join(self.raw) + (b"\n" if self.ended else b"")
            end = Position(self.offset, self.line, _batch_id(self.before, self.offset, text))
        return Batch(self.before.offset, end, self.events, self.lines, self.faults, text[-_TAIL_BYTES:])


@dataclass(frozen=True, slots=True)
class BatchSplitter:
    """Splits sources of one line format into batches of up to `max_events`."""

    max_events: int
    format: LineFormat

    def split(self, source: Source, start: Position, short_ends: Sequence[int]) -> Iterator[Batch]:
        """Yield the batches from `start` on.

        `short_ends` are ascending offsets where earlier batches ended because the file ended there at that time. A
        batch ends there again, so that a batch that may be stored already is sent unchanged. A line at the end that is
        still being written is left for the next time, as a fault of the last batch.
        """
        position = start
        for stop in (*short_ends, None):
            if stop is not None and stop <= position.offset:
                continue
            for batch in self._split_part(source, position, stop):
                batch.body = encode_body(batch.id, batch.events) if batch.events else b""
                batch.compressed_position = source.compressed_position()
                yield batch
                position = batch.end

    def _split_part(self, source: Source, start: Position, stop: int | None) -> Iterator[Batch]:
        batch_in_progress = _OpenBatch(start, start.offset, start.line)
        size = 0
        unended: Fault | None = None
        for line in source.lines(start.offset, stop):
            if not line.ended and source.may_grow and not self._is_complete(line):
                unended = Fault(
                    batch_in_progress.line + 1, "has no line end yet and is left for the next time"
                )
                break
            if batch_in_progress.raw and size + line.length > _MAX_BYTES:
                yield (batch := batch_in_progress.finish())
                batch_in_progress, size = (
                    _OpenBatch(batch.end, batch_in_progress.offset, batch_in_progress.line),
                    0,
                )
            size += line.length
            self._add(batch_in_progress, line)
            if len(batch_in_progress.events) == self.max_events:
                yield (batch := batch_in_progress.finish())
                batch_in_progress, size = (
                    _OpenBatch(batch.end, batch_in_progress.offset, batch_in_progress.line),
                    0,
                )
        if batch_in_progress.raw or unended:
            batch = batch_in_progress.finish()
            batch.at_end = source.may_grow and bool(batch_in_progress.raw)
            if unended:
                batch.faults.append(unended)
            yield batch

    def _is_complete(self, line: Line) -> bool:
        if line.too_long or not self.format.is_self_delimiting:
            return False
        try:
            self.format.encode(line.raw)
        except BadLine:
            return False
        return True

    def _add(self, batch_in_progress: _OpenBatch, line: Line) -> None:
        raw = line.raw
        at_start = batch_in_progress.offset == 0
        number = batch_in_progress.line + 1
        batch_in_progress.raw.append(raw)
        batch_in_progress.offset += line.length
        batch_in_progress.ended = line.ended
        # When the file has grown, the rest of an unfinished line counts as the same line.
        if line.ended:
            batch_in_progress.line = number
        if line.too_long:
            batch_in_progress.faults.append(Fault(number, "is too long for an event"))
            return
        if at_start:
            raw = raw.removeprefix(BYTE_ORDER_MARK)
        if not raw or raw.isspace():
            return
        try:
            batch_in_progress.events.append(self.format.encode(raw))
        except BadLine as bad:
            batch_in_progress.faults.append(Fault(number, str(bad)))
        else:
            batch_in_progress.lines.append(number)
