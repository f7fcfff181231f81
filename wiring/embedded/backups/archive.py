"""The files of a backup: archives of folders, and copies of databases."""

import io
import os
import tarfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from storage_backends.sqlite_snapshot import SqliteSnapshot
from wiring.embedded.backups.errors import BackupFailed
from wiring.embedded.backups.guarded_writer import Job, hash_file, writing
from wiring.embedded.backups.sources import Source

FileFacts = dict[str, Any]
"""Bytes and SHA-256 of a file."""


def write_archive(
    path: Path, sources: Iterable[Source], job: Job, first: Mapping[str, bytes] | None = None
) -> FileFacts:
    """Write a tar archive of the sources, after files with the contents `first`. Owners, modes and links are kept."""
    with (
        writing(path, job) as out,
        tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as archive,  # type: ignore[call-overload]
    ):
        for name, content in (first or {}).items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o600
            info.uid, info.gid = os.geteuid(), os.getegid()
            archive.addfile(info, io.BytesIO(content))
        for source in sources:
            _add(archive, source)
    return {"bytes": out.bytes, "sha256": out.sha256.hexdigest()}


def _add(archive: tarfile.TarFile, source: Source) -> None:
    """Add a file with the length that it had when it was opened: a file that grows meanwhile must not break the
    archive."""
    try:
        info = archive.gettarinfo(str(source.path), source.name)
        if not info.isreg() and not info.islnk():
            archive.addfile(info)
            return
        # Each path is stored as a separate file, even if it is a hard link to another one.
        info.type, info.linkname = tarfile.REGTYPE, ""
        with source.path.open("rb") as file:
            info.size = os.fstat(file.fileno()).st_size
            archive.addfile(info, _Padded(file, info.size))  # type: ignore[arg-type]
    except FileNotFoundError:
        # The file was deleted meanwhile, like an artefact that is no longer needed, or a temporary file of an
        # application.
        return


class _Padded:
    """Reads exactly `size` bytes: zeros for the missing part if the file was shortened meanwhile."""

    def __init__(self, file: Any, size: int) -> None:
        self._file = file
        self._left = size

    def read(self, count: int) -> bytes:
        count = min(count, self._left)
        block: bytes = self._file.read(count)
        self._left -= count
        return block.ljust(count, b"\0")


def copy_database(source: SqliteSnapshot, path: Path, job: Job) -> FileFacts:
    """Copy a database as the snapshot sees it."""
    source.copy(path, job.advance)
    size, digest = hash_file(path)
    return {"bytes": size, "sha256": digest}


def copy_small_file(source: Path, path: Path, job: Job) -> FileFacts:
    """Copy a file of a few kilobytes."""
    with writing(path, job) as out:
        out.write(source.read_bytes())
    return {"bytes": out.bytes, "sha256": out.sha256.hexdigest()}


def extract_archive(path: Path, target: Path, job: Job) -> None:
    """Extract an archive that `write_archive` has made, with the owners if this process is root. Raises
    `BackupFailed`."""
    try:
        with tarfile.open(path, mode="r:") as archive:
            folders = []
            for member in archive:
                job.advance(member.size)
                _check_name(member)
                if member.isdir():
                    folders.append(member)
                    (target / member.name).mkdir(mode=0o700, exist_ok=True)
                else:
                    (target / member.name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    archive.extract(member, target, numeric_owner=True, filter=lambda found, _path: found)
            # Modes and times of folders come last: some are read-only.
            for member in reversed(folders):
                archive.extract(member, target, numeric_owner=True, filter=lambda found, _path: found)
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise BackupFailed(f"{path} is damaged: {error}.") from error


def _check_name(member: tarfile.TarInfo) -> None:
    parts = Path(member.name).parts
    if (
        member.name.startswith("/")
        or ".." in parts
        or not (member.isdir() or member.isreg() or member.issym())
    ):
        raise BackupFailed(f"The archive has a member that no backup has: {member.name}.")
