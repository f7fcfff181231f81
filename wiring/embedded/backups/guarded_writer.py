"""Writes the files of a backup: private, hashed, fsynced, cancellable, and without using the disk's reserve."""

import hashlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from pipeline_contracts.settings import Settings
from wiring.embedded.backups.errors import BackupFailed

OnProgress = Callable[[str, int, int], None]
"""Receives the current step, the number of processed bytes, and the total number of bytes."""

RESERVE_BYTES = Settings().min_free_bytes
"""Bytes to leave free on the disk, unless a setting says otherwise."""
_CHECK_BYTES = 4 * 2**20
_REPORT_SECONDS = 0.2
_PRIVATE = os.O_CREAT | os.O_EXCL | os.O_RDWR


@dataclass(slots=True)
class Job:
    """The progress of a backup, and its cancellation."""

    folder: Path
    reserve_bytes: int
    total_bytes: int = 0
    on_progress: OnProgress = lambda _step, _done, _total: None
    cancelled: threading.Event = field(default_factory=threading.Event)
    done_bytes: int = 0
    step: str = ""
    _reported_at: float = 0.0
    _unchecked: int = 0

    def begin(self, step: str) -> None:
        """Set the name of the current step."""
        self.step = step
        self._reported_at = 0.0
        self.advance(0)

    def advance(self, size: int) -> None:
        """Count bytes that are about to be written or read. Raises `BackupFailed` if the disk becomes full or the job
        is cancelled."""
        if self.cancelled.is_set():
            raise BackupFailed("The backup was cancelled.")
        self.done_bytes += size
        self._unchecked += size
        if self._unchecked >= _CHECK_BYTES:
            self._unchecked = 0
            self.check_space(_CHECK_BYTES)
        if time.monotonic() - self._reported_at >= _REPORT_SECONDS:
            self._reported_at = time.monotonic()
            self.on_progress(self.step, self.done_bytes, max(self.total_bytes, self.done_bytes))

    def check_space(self, size: int) -> None:
        """Raise `BackupFailed` unless `size` bytes fit without using the reserve."""
        free = shutil.disk_usage(self.folder).free
        if free < size + self.reserve_bytes:
            raise BackupFailed(
                f"{self.folder} has {_mib(free)} MiB free, and {_mib(size)} MiB are needed, with "
                f"{_mib(self.reserve_bytes)} MiB left for the disk's other data (PHAROS_MIN_FREE_BYTES). Free some "
                "space, or choose another folder."
            )


def _mib(size: int) -> str:
    return f"{-(-size // 2**20):,}"


class _HashedFile:
    """A file object for `tarfile` and copies that counts and hashes the written bytes."""

    def __init__(self, file: BinaryIO, job: Job) -> None:
        self._file = file
        self._job = job
        self.sha256 = hashlib.sha256()
        self.bytes = 0

    def write(self, data: bytes) -> int:
        self._job.advance(len(data))
        self.sha256.update(data)
        self.bytes += len(data)
        return self._file.write(data)


@contextmanager
def writing(path: Path, job: Job) -> Iterator[_HashedFile]:
    """Create a file of mode 0600; it is fsynced when the context ends."""
    with os.fdopen(os.open(path, _PRIVATE, 0o600), "wb") as file:
        yield _HashedFile(file, job)
        file.flush()
        os.fsync(file.fileno())


def hash_file(path: Path, job: Job | None = None) -> tuple[int, str]:
    """Return the size and the SHA-256 of a file."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
            size += len(block)
            if job is not None:
                job.advance(len(block))
    return size, digest.hexdigest()


def sync_folder(path: Path) -> None:
    """Make names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
