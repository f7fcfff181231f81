"""Writes a file completely or not at all, also during a power cut."""

import os
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Replace the file; on return it is on the disk. Only the owner can read it. Raises `OSError`."""
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        # Before the rename: a file system may write names first, and a power cut would leave an empty file.
        os.fsync(file.fileno())
    os.replace(fresh, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
