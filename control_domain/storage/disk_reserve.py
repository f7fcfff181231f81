"""A file that keeps some space of the disk, to be released when the disk is full.

Dropping a partition and committing a transaction each write a little before they free anything. On a disk without a
free byte they succeed only once the reserve is released.
"""

import os
import shutil
from pathlib import Path

_NAME = "disk-reserve"
_BYTES = 16 * 1024 * 1024
# A small or nearly full disk keeps its space for data.
_MIN_FREE = 4 * _BYTES


def keep_reserve(data_folder: Path) -> None:
    """Make the reserve if it is missing and the disk has enough free space. Blocks on the file system; raises
    `OSError`."""
    reserve = data_folder / _NAME
    if reserve.exists() or shutil.disk_usage(data_folder).free < _MIN_FREE:
        return
    made = reserve.with_suffix(".new")
    try:
        with made.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, _BYTES)
        made.replace(reserve)
    except OSError:
        made.unlink(missing_ok=True)
        raise


def release_reserve(data_folder: Path | None) -> bool:
    """Give the space of the reserve back; return False if there is none, or the disk is not full. Blocks on the file
    system."""
    if data_folder is None or shutil.disk_usage(data_folder).free >= _BYTES:
        return False
    # A start that was killed may have left it half made.
    (data_folder / _NAME).with_suffix(".new").unlink(missing_ok=True)
    try:
        (data_folder / _NAME).unlink()
    except FileNotFoundError:
        return False
    return True
