"""The data folder of `pharos up`: locked by one process, with faults that name the file and what to do."""

import contextlib
import errno
import fcntl
import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from json import JSONDecodeError
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from control_domain.database.errors import reason
from control_domain.first_account.account import ensure_secret
from pipeline_contracts.errors import StorageUnavailable

_SHORTEST_SECRET = 32
# The column store refuses inserts below it, those of its schema too.
_LEAST_FREE_BYTES = 64 * 2**20
# A Unix socket's path has 107 bytes at most (`sun_path`).
_LONGEST_SOCKET_PATH = 107
_MADE_AT_FIRST_START = ("lock", "tmp", "control.sqlite", "event-log.sqlite")
_RESTORE = "Restore the whole data folder from a backup, or choose another --data."
# Advice for one damaged file. With an older event log, a newer column store would drop new records as repeats.
_DAMAGED = {
    "event-log.sqlite": "If the file is damaged, delete it together with its -wal and -shm files: the next start makes "
    "a new log, and accepted records that were not stored yet are lost. Never restore it alone from a backup.",
    "salts.json": "Delete it: the next start makes new salts, and today's visitors are counted anew.",
    "credentials.json": "Delete it: the next start gives the account a new token and a new key.",
}
_ADVICE = {
    errno.ENOTDIR: "Move that file away, or choose another --data.",
    errno.EISDIR: "Move that folder away, or choose another --data.",
    errno.EACCES: "Run as the user who owns it, or choose another --data.",
    errno.EPERM: "Run as the user who owns it, or choose another --data.",
    errno.EROFS: "Choose a --data on a disk that can be written.",
    errno.ENOSPC: "Free some space on its disk, or choose a --data on another one.",
    errno.EDQUOT: "Free some space on its disk, or choose a --data on another one.",
}


class DataFolderInUse(Exception):
    """Another process runs on this data folder."""


class DataFolderUnusable(Exception):
    """The data folder or a file in it cannot be used; the message says why and what to do."""


@contextlib.contextmanager
def own_data_folder(data: Path) -> Iterator[None]:
    """Make the folder, hold its lock, and keep temporary files in it. Raises `DataFolderInUse` and
    `DataFolderUnusable`."""
    with contextlib.ExitStack() as stack:
        with explained(data):
            _check_length(data)
            data.mkdir(parents=True, exist_ok=True, mode=0o700)
            _check_owner(data)
            lock = stack.enter_context(open(data / "lock", "w"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DataFolderInUse(
                    f"Another process runs on {data}. Stop it, or choose another --data."
                ) from None
            # The ClickHouse client hands inserts over in files. A killed process leaves some: they go at the start.
            # Absolute: programs that are started here have working folders of their own.
            scratch = (data / "tmp").absolute()
            with explained(scratch), contextlib.suppress(FileNotFoundError):
                shutil.rmtree(scratch)
            scratch.mkdir(mode=0o700)
            _check_kinds(data)
        before, tempfile.tempdir = tempfile.tempdir, str(scratch)
        try:
            yield
        finally:
            tempfile.tempdir = before


def read_secret(path: Path) -> str:
    """The secret in `path`, made at the first start. Raises `DataFolderUnusable`."""
    with explained(path):
        secret = ensure_secret(path)
    if len(secret) < _SHORTEST_SECRET:
        # A file that a crash has emptied: a guessable key would be worse than no start.
        raise DataFolderUnusable(
            f"{path} holds a secret of {len(secret)} characters; it needs {_SHORTEST_SECRET} or more. Restore it from "
            "a backup."
        )
    return secret


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors about files into `DataFolderUnusable`; `path` is the file if the error names none."""
    try:
        yield
    except OSError as error:
        at = error.filename if isinstance(error.filename, str) else path
        # `mkdir` reports EEXIST for a file.
        is_file = error.errno == errno.EEXIST and not os.path.isdir(at)
        number = errno.ENOTDIR if is_file else error.errno or 0
        why = os.strerror(number) if number else str(error)
        advice = _ADVICE.get(number, "Choose another --data.")
        raise DataFolderUnusable(f"{at} cannot be used: {why}. {advice}") from error
    except (UnicodeDecodeError, JSONDecodeError, DBAPIError) as error:
        found = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        why = "it is not text" if isinstance(error, UnicodeDecodeError) else reason(found)
        raise DataFolderUnusable(f"{path} cannot be read: {why}. {_advice_for_damage(path)}") from error
    except StorageUnavailable as error:
        # Engines report a full disk in many ways ("disk I/O error").
        is_full = _is_full(path)
        told = os.strerror(errno.ENOSPC) if is_full else str(error).rstrip(".")
        advice = _ADVICE[errno.ENOSPC] if is_full else _advice_for_damage(path)
        at = "" if str(path) in told else f"{path} cannot be used: "
        raise DataFolderUnusable(f"{at}{told}. {advice}") from error


def _advice_for_damage(path: Path) -> str:
    return _DAMAGED.get(path.name, _RESTORE)


def _check_owner(data: Path) -> None:
    """Refuse a folder that another user's Pharos has set up: the applications deployed there belong to that user, and
    this process could not start them."""
    for name in _MADE_AT_FIRST_START:
        with contextlib.suppress(FileNotFoundError):
            owner = os.lstat(data / name).st_uid
            if owner != os.geteuid():
                raise DataFolderUnusable(
                    f"{data / name} belongs to {_user(owner)}, but Pharos runs as {_user(os.geteuid())}. Run it as "
                    f"{_user(owner)}, or choose another --data."
                )


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _is_full(path: Path) -> bool:
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _LEAST_FREE_BYTES


def _check_length(data: Path) -> None:
    length = len(str(data / "operator.sock").encode())
    if length > _LONGEST_SOCKET_PATH:
        raise DataFolderUnusable(
            f"The path of the data folder is too long: {data / 'operator.sock'} has {length} bytes, and a Unix socket "
            f"takes {_LONGEST_SOCKET_PATH}. Choose a shorter --data."
        )


def _check_kinds(data: Path) -> None:
    """Raise `OSError` or `DataFolderUnusable` for a file that its engine could not open: the engines do not say why."""
    for name in ("control.sqlite", "event-log.sqlite"):
        with contextlib.suppress(FileNotFoundError):
            open(data / name, "r+b").close()
    for name in ("clickhouse", "deployer"):
        if (data / name).exists():
            os.listdir(data / name)
    at = data / "operator.sock"
    if at.exists() and not at.is_socket():
        raise DataFolderUnusable(
            f"{at} cannot be used: it is not a socket. Move it away, or choose another --data."
        )
