"""Open a plain file, a gzip file or a stream to send. Offsets are those of the uncompressed text."""

import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from operator_cli.errors import CommandFailed

_BLOCK = 2**20
# Far above the limit of any server: longer lines are skipped, and not held in memory.
_MAX_LINE_LENGTH = 20 * 2**20
# The end of a skipped line that is kept for the check when sending resumes.
_TAIL_BYTES = 1024
_GZIP_MAGIC = b"\x1f\x8b"


class _Reader(Protocol):
    def read(self, size: int, /) -> bytes | None: ...
    def seek(self, offset: int, /) -> int: ...


class Line(NamedTuple):
    """A line without its line end.

    `length` includes the line end, and `ended` is True if there is one. If the line is `too_long`, `raw` has only its
    last bytes.
    """

    raw: bytes
    length: int
    ended: bool
    too_long: bool


class Source:
    """A file to send, or standard input for `-`. Raises `CommandFailed` if it cannot be opened or read."""

    def __init__(self, name: str) -> None:
        self.name = name
        try:
            # Without Python's buffer, so that a thread that waits for standard input can be abandoned at exit.
            self._file = io.FileIO(0, closefd=False) if name == "-" else io.FileIO(name)
        except OSError as error:
            raise CommandFailed(f"{name} cannot be read: {error.strerror}") from None
        status = os.fstat(self._file.fileno())
        # Standard input and pipes have no offset to resume from.
        self.is_stream = name == "-" or not stat.S_ISREG(status.st_mode)
        self.size = 0 if self.is_stream else status.st_size
        self.device, self.inode = status.st_dev, status.st_ino
        self.path = name if self.is_stream else str(Path(name).resolve())
        self._reader: _Reader = self._file
        self._gzip: gzip.GzipFile | None = None
        self._ahead = b""
        if not self.is_stream and self.read_at(0, 2) == _GZIP_MAGIC:
            self._file.seek(0)
            self._reader = self._gzip = gzip.GzipFile(fileobj=self._file, mode="rb")

    @property
    def may_grow(self) -> bool:
        """True for a plain file, False for a compressed one or a stream."""
        return not self.is_stream and self._gzip is None

    def close(self) -> None:
        if self._gzip is not None:
            self._gzip.close()
        self._file.close()

    def compressed_position(self) -> int | None:
        """Return the number of compressed bytes that were read, None for an uncompressed file."""
        return None if self._gzip is None else self._file.tell()

    def read_at(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at `offset`, or at the current position of a stream; fewer at the end."""
        if not self.is_stream:
            self._seek(offset)
        data = b""
        while len(data) < size and (more := self._read(size - len(data))):
            data += more
        return data

    def peek(self, size: int) -> bytes:
        """Return the first bytes, without consuming them."""
        if not self.is_stream:
            return self.read_at(0, size)
        # Only what a stream has at this time: waiting for more would delay the first events.
        while b"\n" not in self._ahead.strip() and len(self._ahead) < size and (more := self._read(size)):
            self._ahead += more
        return self._ahead

    def lines(self, start: int, stop: int | None) -> Iterator[Line]:
        """Yield the lines from `start` to the end, or as if the file ended at `stop`."""
        if not self.is_stream:
            self._seek(start)
        left = sys.maxsize if stop is None else stop - start
        rest = b""
        too_long = 0
        while block := self._next_block(min(_BLOCK, left)):
            left -= len(block)
            lines = (rest + block).split(b"\n")
            rest = lines.pop()
            if too_long and lines:
                first = lines.pop(0)
                yield Line(first[-_TAIL_BYTES:], too_long + len(first) + 1, True, True)
                too_long = 0
            for line in lines:
                yield Line(line, len(line) + 1, True, False)
            if too_long or len(rest) > _MAX_LINE_LENGTH:
                # Only the length and the end of the line are kept.
                too_long += len(rest) - min(len(rest), _TAIL_BYTES)
                rest = rest[-_TAIL_BYTES:]
        if rest:
            yield Line(rest, too_long + len(rest), False, too_long > 0)

    def _next_block(self, size: int) -> bytes:
        if self._ahead:
            block, self._ahead = self._ahead, b""
            return block
        return self._read(size)

    def _read(self, size: int) -> bytes:
        try:
            return self._reader.read(size) or b""
        except (OSError, EOFError, zlib.error) as error:
            raise CommandFailed(f"{self.name} cannot be read: {error}") from None

    def _seek(self, offset: int) -> None:
        try:
            self._reader.seek(offset)
        except (OSError, EOFError, zlib.error) as error:
            raise CommandFailed(f"{self.name} cannot be read: {error}") from None
