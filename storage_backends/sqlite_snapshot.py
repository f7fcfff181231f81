"""Reads and copies a consistent snapshot of a SQLite file while other processes write to it."""

import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline_contracts.errors import StorageUnavailable

_PAGES = 512


class SqliteSnapshot:
    """A read transaction that sees the file as it was when the object was created. All files of Pharos use WAL mode:
    writers do not wait for the transaction, but the write-ahead log grows until the transaction ends."""

    def __init__(self, path: Path) -> None:
        """Begin the transaction. Raises `StorageUnavailable`."""
        self._path = path
        uri = f"{path.absolute().as_uri()}?mode=rw"
        try:
            self._connection = sqlite3.connect(
                uri, uri=True, isolation_level=None, check_same_thread=False, timeout=10.0
            )
        except sqlite3.Error as error:
            raise StorageUnavailable(f"{path} cannot be opened: {error}") from error
        try:
            self.rows("BEGIN")
            # In SQLite, a read transaction begins with the first read.
            self.rows("SELECT count(*) FROM sqlite_schema")
        except BaseException:
            self.close()
            raise

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement. Raises `StorageUnavailable`."""
        try:
            return self._connection.execute(sql).fetchall()
        except sqlite3.Error as error:
            raise StorageUnavailable(f"{self._path} cannot be read: {error}") from error

    def bytes(self) -> int:
        """Return the size in bytes that a copy of the file will have."""
        return int(self.rows("PRAGMA page_count")[0][0]) * int(self.rows("PRAGMA page_size")[0][0])

    def copy(self, target: Path, on_copied: Callable[[int], None]) -> None:
        """Copy the file to `target`, a new file of mode 0600, and fsync the copy. `on_copied`: receives the number of
        bytes of each step. Raises `StorageUnavailable`, `OSError` and the errors of `on_copied`."""
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        page_bytes = int(self.rows("PRAGMA page_size")[0][0])
        before = 0

        def count(_status: int, remaining: int, total: int) -> None:
            nonlocal before
            copied = total - remaining
            on_copied((copied - before) * page_bytes)
            before = copied

        try:
            with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as copy:
                self._connection.backup(copy, pages=_PAGES, progress=count)
        except sqlite3.Error as error:
            raise StorageUnavailable(f"{self._path} cannot be copied: {error}") from error
        descriptor = os.open(target, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """End the transaction."""
        self._connection.close()
