"""Reads what the processes of an environment print, from the files in which the deployer of this machine keeps it.

A file is bounded: now and then its newest lines are moved to `<file>.1`, and it begins anew. What the processes have
done to it is not trusted: a symbolic link, a pipe or a device in its place is passed over.
"""

import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 256 * 1024
"""Of each file, in one reading."""
_MOST_FILES = 200
_NAME = re.compile(r"([a-z0-9][a-z0-9_-]{0,29})\.([0-9]{1,6})\.log")
_ALONE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class Output:
    """What one process has printed."""

    deployment_id: int
    """The one that brought it: its files are its own."""
    process: str
    number: int
    offset: int
    """Behind the last whole line of `text`: from here on there is more later."""
    text: str
    """Whole lines."""
    rest: str
    """Behind them: a line that has no end yet."""
    is_cut: bool
    """Whether the file began anew since: lines may be missing."""

    @property
    def name(self) -> str:
        return f"{self.process}.{self.number}"

    @property
    def key(self) -> str:
        """What offsets are told by."""
        return f"{self.deployment_id}/{self.name}"


def read_output(
    folder: Path,
    environment_id: str,
    offsets: Mapping[str, int],
    runs: Mapping[int, Collection[str]],
    most_bytes: int = MOST_BYTES,
) -> list[Output] | None:
    """What each process has printed behind its offset (by key, `7/web.1`), or last where it has none: up to
    `most_bytes`. `runs`: the names of what runs, by deployment; none: all of the newest deployment that has run.
    `environment_id` is the public one. None where the environment has no such files here. Blocks.

    Raises `OSError` where they are there and cannot be read.
    """
    read: list[Output] = []
    try:
        with _opened(str(folder / "outputs")) as outputs, _opened(environment_id, outputs) as mine:
            there = {int(name) for name in os.listdir(mine) if name.isdecimal()}
            chosen = {number: runs[number] for number in there & runs.keys()} if runs else {}
            if not runs and there:
                chosen = {max(there): ()}
            for number, names in sorted(chosen.items()):
                with _opened(str(number), mine) as files:
                    read += _read_files(files, number, names, offsets, most_bytes)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return read


def _read_files(
    folder: int, deployment_id: int, only: Collection[str], offsets: Mapping[str, int], most_bytes: int
) -> list[Output]:
    found = [match for name in os.listdir(folder) if (match := _NAME.fullmatch(name))]
    chosen = [match for match in found if not only or f"{match[1]}.{match[2]}" in only]
    chosen.sort(key=lambda match: (match[1], int(match[2])))
    read = [_read_file(folder, deployment_id, match, offsets, most_bytes) for match in chosen[:_MOST_FILES]]
    return [output for output in read if output is not None]


@contextmanager
def _opened(path: str, within: int | None = None) -> Iterator[int]:
    """A folder, which is no link where it is `within` another."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    found = os.open(path, flags if within is None else flags | os.O_NOFOLLOW, dir_fd=within)
    try:
        yield found
    finally:
        os.close(found)


def _read_file(
    folder: int, deployment_id: int, name: re.Match[str], offsets: Mapping[str, int], most_bytes: int
) -> Output | None:
    """None for what is no plain file, or is gone by now."""
    process, number = name[1], int(name[2])
    offset = offsets.get(f"{deployment_id}/{process}.{number}")
    piece = _read_piece(folder, name[0], offset, most_bytes)
    if piece is None:
        return None
    data, start, is_cut = piece
    end = data.rfind(b"\n") + 1
    if end == 0 and len(data) == most_bytes:
        # One line that is longer than a reading: it is given in parts.
        end = len(data)
    text, rest = data[:end], data[end:]
    if offset is None and start == 0 and len(data) < most_bytes:
        before = _read_piece(folder, f"{name[0]}.1", None, most_bytes - len(data))
        text = (b"" if before is None else before[0]) + text
    return Output(
        deployment_id,
        process,
        number,
        start + end,
        text.decode("utf-8", "replace"),
        rest.decode("utf-8", "replace"),
        is_cut,
    )


def _read_piece(
    folder: int, name: str, offset: int | None, most_bytes: int
) -> tuple[bytes, int, bool] | None:
    """What is behind the offset, where that begins, and whether the file was cut since; the last whole lines where
    there is no offset, or it was cut."""
    try:
        file = os.open(name, _ALONE, dir_fd=folder)
    except OSError:
        return None
    try:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode):
            return None
        is_cut = offset is not None and offset > facts.st_size
        if offset is not None and not is_cut:
            return os.pread(file, most_bytes, offset), offset, False
        start = max(0, facts.st_size - most_bytes)
        data = os.pread(file, most_bytes, start)
    finally:
        os.close(file)
    # The first line is only a part of one, unless it is the file's.
    skipped = data.find(b"\n") + 1 if start else 0
    return data[skipped:], start + skipped, is_cut
