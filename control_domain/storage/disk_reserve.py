"""A file that keeps some space of the disk, to be released when the disk is full.

Dropping a partition and committing a transaction each write a little before they free anything. On a disk without a
free byte they succeed only once the reserve is released. The event log does not use the released space up, because it
accepts no records on a disk with less than 128 MiB.
"""

import os
import shutil
from pathlib import Path

_NAME = "disk-reserve"
_HALF_MADE = "disk-reserve.new"
_BYTES = 16 * 1024 * 1024
# A small or nearly full disk has no reserve, so that its space is left for data.
_MIN_FREE = 4 * _BYTES


def keep_reserve(data_folder: Path) -> None:
    """Make the reserve if it is missing and the disk has enough free space. Blocks on the file system; raises
    `OSError`."""
    reserve = data_folder / _NAME
    if reserve.exists() or shutil.disk_usage(data_folder).free < _MIN_FREE:
        return
    made = data_folder / _HALF_MADE
    try:
        with made.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, _BYTES)
        made.replace(reserve)
    except BaseException:
        made.unlink(missing_ok=True)
        raise


def is_disk_full(data_folder: Path | None) -> bool:
    """True if the disk has less free space than the reserve. Blocks on the file system."""
    return data_folder is not None and shutil.disk_usage(data_folder).free < _BYTES


def release_reserve(data_folder: Path | None) -> bool:
    """Give the space of the reserve back; return False if there is none. Blocks on the file system."""
    if data_folder is None:
        return False
    # A process that was killed may have left this file.
    (data_folder / _HALF_MADE).unlink(missing_ok=True)
    try:
        (data_folder / _NAME).unlink()
    except FileNotFoundError:
        return False
    return True


def make_space_on_full_disk(data_folder: Path | None) -> None:
    """Release the reserve if the disk is full. Call this before a request that must write a record in order to free
    space. Blocks on the file system."""
    if is_disk_full(data_folder):
        release_reserve(data_folder)
