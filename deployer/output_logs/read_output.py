"""Reads output files from a position on, across rotations. Blocking.

Applications may replace the files, so links, pipes and devices are skipped.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from deployer.processes.output_file import count_rotated_bytes, rotation_lock

_NAME = re.compile(r"([a-z0-9][a-z0-9_-]{0,29})\.([0-9]{1,6})\.log")
_ENVIRONMENT = re.compile(r"env_[0-9a-z]{1,36}")
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_COUNTED_BYTES = 16 * 2**20
_BLOCK = 256 * 1024
_PASSING_FAULTS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO)
_MAX_FILES = 5000
_USUAL_LINE_BYTES = 100


@dataclass(frozen=True, slots=True)
class OutputFile:
    """The output file of one process."""

    environment_id: str
    deployment_id: int
    process: str
    number: int
    path: Path

    @property
    def name(self) -> str:
        """Return a name that is unique among the outputs of the environment, such as `7/web.1`."""
        return f"{self.deployment_id}/{self.process}.{self.number}"


class Cut(Exception):
    """The file is shorter than the position. The application has truncated the file, or a power cut has lost its
    end."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes of an output, and where they are in it."""

    start: int
    data: bytes
    written_ms: int
    """The time of the last write to the file, in milliseconds since 1970."""
    end: int
    """The end position of the whole output."""
    is_last: bool
    """True if no more bytes follow in this file, as in a rotated file. An unfinished line then never ends."""
    is_rotated: bool


def list_changed(folder: Path, seen: dict[Path, tuple[int, int]]) -> list[OutputFile]:
    """Return the output files below `folder` whose size or time of change differs from `seen`. Update `seen`."""
    changed = []
    found: set[Path] = set()
    for file in _list_files(folder):
        try:
            facts = file.path.lstat()
        except OSError:
            continue
        found.add(file.path)
        mark = (facts.st_size, facts.st_mtime_ns)
        if seen.get(file.path) != mark:
            seen[file.path] = mark
            changed.append(file)
    for path in seen.keys() - found:
        del seen[path]
    return changed


def _list_files(folder: Path) -> Iterator[OutputFile]:
    count = 0
    for environment in _list_names(folder):
        if _ENVIRONMENT.fullmatch(environment) is None:
            continue
        for deployment in sorted(
            filter(str.isdecimal, _list_names(folder / environment)), key=int, reverse=True
        ):
            for name in _list_names(folder / environment / deployment):
                match = _NAME.fullmatch(name)
                if match is not None and count < _MAX_FILES:
                    count += 1
                    path = folder / environment / deployment / name
                    yield OutputFile(environment, int(deployment), match[1], int(match[2]), path)


def _list_names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


class End(NamedTuple):
    """The end of an output, and how it ends."""

    position: int
    is_empty: bool
    """True if the current file is empty."""
    is_in_line: bool
    """True if the last line has no line end."""


def find_end(path: Path) -> End:
    """Return the end of the output. Raises `OSError`."""
    with rotation_lock:
        rotated = count_rotated_bytes(path)
        with _opened(path) as present:
            if present is None:
                return End(rotated, True, False)
            file, facts = present
            size = facts.st_size
            is_in_line = size > 0 and os.pread(file, 1, size - 1) != b"\n"
            return End(rotated + size, size == 0, is_in_line)


def read_piece(path: Path, start: int, most_bytes: int) -> Piece | None:
    """Return bytes of the output from `start` on. If those bytes are gone, begin at the first later byte that still
    exists. Return None if nothing can be read. Raises `Cut`, and `OSError` if the output cannot be read now."""
    with rotation_lock:
        rotated = count_rotated_bytes(path)
        with _opened(path) as present:
            if present is None:
                return None
            file, facts = present
            end = rotated + facts.st_size
            if start > end:
                raise Cut
            if start >= rotated:
                data = os.pread(file, most_bytes, start - rotated)
                return Piece(start, data, facts.st_mtime_ns // 10**6, end, start + len(data) >= end, False)
        with _opened(path.with_name(path.name + ".1")) as former:
            if former is None:
                return _read_after_loss(path, rotated, most_bytes, end)
            file, facts = former
            begin = max(0, rotated - facts.st_size)
            start = max(start, begin)
            if start >= rotated:
                return _read_after_loss(path, rotated, most_bytes, end)
            data = os.pread(file, min(most_bytes, rotated - start), start - begin)
            is_last = start + len(data) >= rotated
            return Piece(start, data, facts.st_mtime_ns // 10**6, end, is_last, True)


def _read_after_loss(path: Path, start: int, most_bytes: int, end: int) -> Piece | None:
    """Return the beginning of the current file. Used when the rotated file no longer exists."""
    with _opened(path) as present:
        if present is None:
            return None
        file, facts = present
        data = os.pread(file, most_bytes, 0)
        return Piece(start, data, facts.st_mtime_ns // 10**6, end, start + len(data) >= end, False)


def estimate_lines(size: int, sample: bytes = b"") -> int:
    """Estimate how many lines `size` bytes have, from the average length of the lines in a sample."""
    ends = sample.count(b"\n")
    return max(1, round(size * ends / len(sample) if ends else size / _USUAL_LINE_BYTES))


def skip_lines(path: Path, start: int, target: int) -> tuple[int, int, bool]:
    """Return three values: the position of the first line at or after `target`, the number of lines between `start`
    and this position, and True if the number is an estimate because lines are lost or too many to count."""
    position, lines, uncounted = start, 0, 0
    sample = b""
    while position < target:
        if position - start >= _COUNTED_BYTES:
            uncounted += target - position
            position = target
            break
        piece = read_piece(path, position, min(_BLOCK, target - position))
        if piece is None or not piece.data:
            break
        sample = piece.data
        uncounted += piece.start - position
        lines += piece.data.count(b"\n")
        position = piece.start + len(piece.data)
    piece = read_piece(path, position, _BLOCK)
    if piece is not None and (line_end := piece.data.find(b"\n")) >= 0:
        uncounted += piece.start - position
        position, lines = piece.start + line_end + 1, lines + 1
    if uncounted:
        lines += estimate_lines(uncounted, sample)
    return position, lines, uncounted > 0


@contextmanager
def _opened(path: Path) -> Iterator[tuple[int, os.stat_result] | None]:
    """Open a regular file. Yield None for any other kind of file. Raises `OSError` for a fault that may be
    temporary."""
    try:
        file = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno in _PASSING_FAULTS:
            raise
        yield None
        return
    try:
        facts = os.fstat(file)
        yield (file, facts) if stat.S_ISREG(facts.st_mode) else None
    finally:
        os.close(file)
