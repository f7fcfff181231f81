"""Reads what processes print, from files in the deploy folder. Any process of the machine can use it.

The size of a file is limited: now and then its lines are moved to `<file>.1`, and it starts anew. Processes may replace
the files, so symbolic links, pipes and devices are skipped.
"""

import asyncio
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from control_domain.process_output import MAX_BYTES, OutputPart, OutputUnreadable
from deployer.drivers.local.layout import OUTPUTS

_MAX_FILES = 200
_NAME = re.compile(r"([a-z0-9][a-z0-9_-]{0,29})\.([0-9]{1,6})\.log")
_ALONE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class LocalProcessOutput:
    """A `ProcessOutput` of the deployer that has this folder."""

    folder: Path

    async def read(
        self,
        environment_id: str,
        offsets: Mapping[str, int],
        running: Mapping[int, Collection[str]],
        most_bytes: int = MAX_BYTES,
    ) -> list[OutputPart] | None:
        """See `ProcessOutput`."""
        try:
            return await asyncio.to_thread(
                _read_output, self.folder, environment_id, offsets, running, most_bytes
            )
        except OSError as error:
            advice = (
                " The control plane has to run as the deployer's user."
                if isinstance(error, PermissionError)
                else ""
            )
            raise OutputUnreadable(
                f"The output cannot be read in {self.folder}: {error.strerror}.{advice}"
            ) from error

    def belongs_to(self, deployer_name: str) -> bool:
        """See `ProcessOutput`. Names of local deployers end with their folders."""
        return deployer_name.endswith(f":{self.folder.resolve()}")


def _read_output(
    folder: Path,
    environment_id: str,
    offsets: Mapping[str, int],
    running: Mapping[int, Collection[str]],
    most_bytes: int,
) -> list[OutputPart] | None:
    read: list[OutputPart] = []
    try:
        with _opened(str(folder / OUTPUTS)) as outputs, _opened(environment_id, outputs) as mine:
            deployments = {int(name) for name in os.listdir(mine) if name.isdecimal()}
            chosen = {number: running[number] for number in deployments & running.keys()} if running else {}
            if not running and deployments:
                chosen = {max(deployments): ()}
            for number, names in sorted(chosen.items()):
                with _opened(str(number), mine) as files:
                    read += _read_files(files, number, names, offsets, most_bytes)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return read


def _read_files(
    folder: int, deployment_id: int, only: Collection[str], offsets: Mapping[str, int], most_bytes: int
) -> list[OutputPart]:
    found = [match for name in os.listdir(folder) if (match := _NAME.fullmatch(name))]
    chosen = [match for match in found if not only or f"{match[1]}.{match[2]}" in only]
    chosen.sort(key=lambda match: (match[1], int(match[2])))
    read = [_read_file(folder, deployment_id, match, offsets, most_bytes) for match in chosen[:_MAX_FILES]]
    return [output for output in read if output is not None]


@contextmanager
def _opened(path: str, within: int | None = None) -> Iterator[int]:
    """Open a folder. With `within`, the folder is inside that parent, and symbolic links on the way are refused."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    found = os.open(path, flags if within is None else flags | os.O_NOFOLLOW, dir_fd=within)
    try:
        yield found
    finally:
        os.close(found)


def _read_file(
    folder: int, deployment_id: int, name: re.Match[str], offsets: Mapping[str, int], most_bytes: int
) -> OutputPart | None:
    """Return the output after the offset. None if the file is not a regular file, or was removed."""
    process, number = name[1], int(name[2])
    offset = offsets.get(f"{deployment_id}/{process}.{number}")
    piece = _read_piece(folder, name[0], offset, most_bytes)
    if piece is None:
        return None
    data, start, is_truncated = piece
    end = data.rfind(b"\n") + 1
    if end == 0 and len(data) == most_bytes:
        # A line that is longer than one read is returned in parts.
        end = len(data)
    text, rest = data[:end], data[end:]
    if offset is None and start == 0 and len(data) < most_bytes:
        before = _read_piece(folder, f"{name[0]}.1", None, most_bytes - len(data))
        text = (b"" if before is None else before[0]) + text
    return OutputPart(
        deployment_id,
        process,
        number,
        start + end,
        text.decode("utf-8", "replace"),
        rest.decode("utf-8", "replace"),
        is_truncated,
    )


def _read_piece(
    folder: int, name: str, offset: int | None, most_bytes: int
) -> tuple[bytes, int, bool] | None:
    """Return the bytes after the offset, the offset of the first returned byte, and True if the file was cut since the
    offset was read. Without an offset, or after a cut, return the last whole lines."""
    try:
        file = os.open(name, _ALONE, dir_fd=folder)
    except OSError:
        return None
    try:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode):
            return None
        is_truncated = offset is not None and offset > facts.st_size
        if offset is not None and not is_truncated:
            return os.pread(file, most_bytes, offset), offset, False
        start = max(0, facts.st_size - most_bytes)
        data = os.pread(file, most_bytes, start)
    finally:
        os.close(file)
    # Drop the first line, whose beginning was not read.
    skipped = data.find(b"\n") + 1 if start else 0
    return data[skipped:], start + skipped, is_truncated
