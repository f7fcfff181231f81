"""Manages the file that a long-running process writes its output to. Blocking."""

import contextlib
import os
import threading
from pathlib import Path

from deployer.processes.confinement import Owner
from deployer.write_atomically import write_atomically

_LINE_BYTES = 65536
_COUNT_DIGITS = 20
rotation_lock = threading.RLock()
"""This lock is held while a file is truncated, and by readers that read a file and its rotated part."""


def open_output(path: Path, owner: Owner | None) -> int:
    """Open the file to append, and return a descriptor for the process; the caller closes it. Raises OSError.

    Pharos owns the file. The owner's group may open it for writing, so that programs can log to /dev/stderr. The
    program must not own the file: an owner could block others from opening it with a file lease.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        if owner is not None:
            os.fchown(descriptor, -1, owner.gid)
        os.fchmod(descriptor, 0o600 if owner is None else 0o620)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def end_line(path: Path) -> None:
    """If the last line of the file has no line end, append one. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            os.write(descriptor, b"\n")
    finally:
        os.close(descriptor)


def truncate_output(path: Path, most_bytes: int) -> None:
    """If the file is longer than `most_bytes`, move the newest whole lines of that size to `<path>.1`, and empty the
    file. Raises OSError.

    The process keeps writing to the same file: lines written in the microseconds between copy and truncation are lost.
    On a full disk all lines are lost, since truncation frees space. `<path>-rotated.count` has the number of bytes
    before the first one of the file.
    """
    # Most calls find a short file. They need not wait for readers.
    if path.lstat().st_size > most_bytes:
        with rotation_lock:
            _rotate(path, most_bytes)


def count_rotated_bytes(path: Path) -> int:
    """Return how many bytes of the output came before the first byte of the current file. Raises `OSError` if the
    count cannot be read now: with 0 instead, all positions would change their meaning."""
    try:
        descriptor = os.open(_count_path(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return 0
    try:
        return int(os.read(descriptor, _COUNT_DIGITS))
    except ValueError:
        return 0
    finally:
        os.close(descriptor)


def _count_path(path: Path) -> Path:
    return path.with_name(f"{path.name}-rotated.count")


def _rotate(path: Path, most_bytes: int) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        if size <= most_bytes:
            return
        # Read the count before the truncation, and do not truncate if this fails: a truncation that is not counted
        # would change the meaning of all positions.
        before = count_rotated_bytes(path)
        rotated = path.with_name(path.name + ".1")
        try:
            size = _copy(descriptor, rotated, _line_after(descriptor, size - most_bytes), size, most_bytes)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                rotated.unlink()
        os.ftruncate(descriptor, 0)
        # Write this after the truncation: if the deployer is killed in between, readers see a file that was cut. The
        # other order would show them the same lines twice.
        with contextlib.suppress(OSError):
            write_atomically(_count_path(path), str(before + size))
    finally:
        os.close(descriptor)


def _line_after(descriptor: int, position: int) -> int:
    """Return the start of the next line. Return `position` if the line end is far away."""
    return position + os.pread(descriptor, _LINE_BYTES, position).find(b"\n") + 1


def _copy(descriptor: int, rotated: Path, begin: int, end: int, most_bytes: int) -> int:
    """Copy the part of the file from `begin` to `end` into `rotated`. Return where the copied part ended."""
    target = os.open(rotated, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _send(target, descriptor, begin, end)
        # Also copy lines that were written during the copy.
        later = min(os.fstat(descriptor).st_size, end + most_bytes)
        _send(target, descriptor, end, later)
        return later
    finally:
        os.close(target)


def _send(target: int, source: int, begin: int, end: int) -> None:
    while begin < end and (sent := os.sendfile(target, source, begin, end - begin)):
        begin += sent
