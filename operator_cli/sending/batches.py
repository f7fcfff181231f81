"""Cuts a source into batches. The same text from the same place gives the same batches with the same IDs."""

import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from operator_cli.sending.bad_line import BadLine
from operator_cli.sending.formats import BYTE_ORDER_MARK, LineFormat
from operator_cli.sending.sources import Line, Source

# Text of a file in one batch. Well below what a server takes, also when a log line grows on becoming an event.
_MOST_BYTES = 2**20
_KEPT_END = 1024
# Measured on telemetry and access logs: level 3 costs hardly more than 1 and makes bodies 5 to 14 times smaller;
# level 6 makes them a tenth smaller still for twice the CPU.
_COMPRESSION_LEVEL = 3


@dataclass(frozen=True, slots=True)
class Place:
    """Between two lines of a source: bytes and lines before it, and the ID of the batch that ends there."""

    offset: int
    line: int
    batch_id: str


@dataclass(frozen=True, slots=True)
class Fault:
    """One line that is not sent."""

    line: int
    reason: str


@dataclass(slots=True)
class Batch:
    """Lines in a row. `lines[n]` is the line number of `events[n]`. `end_text` is the last text before the end,
    1 KiB at most. `at_end`: the source ended before the batch was full, and may grow."""

    start: int
    end: Place
    events: list[bytes]
    lines: list[int]
    faults: list[Fault]
    end_text: bytes
    at_end: bool = False
    body: bytes = b""
    compressed_position: int | None = None

    @property
    def id(self) -> str:
        return self.end.batch_id

    def drop_events(self) -> None:
        """Let go of the memory once they are delivered."""
        self.events, self.lines, self.body = [], [], b""


def first_place(seed: str) -> Place:
    """The beginning of a source. Sources with another seed have other batch IDs."""
    return Place(0, 0, hashlib.blake2b(seed.encode(), digest_size=20, person=b"pharos-send").hexdigest())


def encode_body(batch_id: str, events: Sequence[bytes]) -> bytes:
    """The gzip body of an ingest request. The events are JSON already."""
    text = b'{"batch_id":%b,"events":[%b]}' % (json.dumps(batch_id).encode(), b",".join(events))
    return zlib.compress(text, _COMPRESSION_LEVEL, wbits=31)


def derive_id(batch_id: str, kept: Sequence[int]) -> str:
    """The ID of what is left of a batch: of the events at these places in it, whichever way it came to that."""
    text = f"{batch_id}:{','.join(map(str, kept))}"
    return "send-" + hashlib.blake2b(text.encode(), digest_size=20, person=b"pharos-part").hexdigest()


def _batch_id(before: Place, end: int, text: bytes) -> str:
    """Chained: it names the text of the batch and, through the ID before, all text and all cuts before it. Two
    files share IDs as far as they are the same, and no further."""
    digest = hashlib.blake2b(digest_size=20, person=b"pharos-send")
    digest.update(f"{before.batch_id}:{before.offset}:{end}:".encode())
    digest.update(text)
    return "send-" + digest.hexdigest()


@dataclass(slots=True)
class _Growing:
    """The batch that is being filled."""

    before: Place
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
            end = Place(self.offset, self.line, _batch_id(self.before, self.offset, text))
        return Batch(self.before.offset, end, self.events, self.lines, self.faults, text[-_KEPT_END:])


@dataclass(frozen=True, slots=True)
class Cutter:
    """How to cut: most events of a batch, and the format of a line."""

    most_events: int
    format: LineFormat

    def cut(self, source: Source, start: Place, planned: Sequence[int]) -> Iterator[Batch]:
        """The batches from `start` on.

        `planned` are the ends, ascending, that earlier batches had because the file ended there then: a batch
        ends there again, so that one which may be stored already is sent the same. A line that is still being
        written at the end is left for the next time, as a fault of the last batch.
        """
        place = start
        for stop in (*planned, None):
            if stop is not None and stop <= place.offset:
                continue
            for batch in self._cut_part(source, place, stop):
                batch.body = encode_body(batch.id, batch.events) if batch.events else b""
                batch.compressed_position = source.compressed_position()
                yield batch
                place = batch.end

    def _cut_part(self, source: Source, start: Place, stop: int | None) -> Iterator[Batch]:
        growing = _Growing(start, start.offset, start.line)
        size = 0
        unended: Fault | None = None
        for line in source.lines(start.offset, stop):
            if not line.ended and source.may_grow and not self._shows_its_end(line):
                unended = Fault(growing.line + 1, "has no line end yet and is left for the next time")
                break
            if growing.raw and size + line.length > _MOST_BYTES:
                yield (batch := growing.finish())
                growing, size = _Growing(batch.end, growing.offset, growing.line), 0
            size += line.length
            self._add(growing, line)
            if len(growing.events) == self.most_events:
                yield (batch := growing.finish())
                growing, size = _Growing(batch.end, growing.offset, growing.line), 0
        if growing.raw or unended:
            batch = growing.finish()
            batch.at_end = source.may_grow and bool(growing.raw)
            if unended:
                batch.faults.append(unended)
            yield batch

    def _shows_its_end(self, line: Line) -> bool:
        if line.too_long or not self.format.shows_its_end:
            return False
        try:
            self.format.encode(line.raw)
        except BadLine:
            return False
        return True

    def _add(self, growing: _Growing, line: Line) -> None:
        raw = line.raw
        at_start = growing.offset == 0
        number = growing.line + 1
        growing.raw.append(raw)
        growing.offset += line.length
        growing.ended = line.ended
        # The rest of a line without an end counts as the same line when the file has grown.
        if line.ended:
            growing.line = number
        if line.too_long:
            growing.faults.append(Fault(number, "is too long for an event"))
            return
        if at_start:
            raw = raw.removeprefix(BYTE_ORDER_MARK)
        if not raw or raw.isspace():
            return
        try:
            growing.events.append(self.format.encode(raw))
        except BadLine as bad:
            growing.faults.append(Fault(number, str(bad)))
        else:
            growing.lines.append(number)
