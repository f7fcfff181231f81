"""The data folder of `pharos up`: locked by one process. Errors name the file and the remedy."""

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

from control_domain.database.errors import driver_message
from control_domain.first_account.account import ensure_secret
from control_domain.storage.disk_reserve import make_space_on_full_disk
from pipeline_contracts.errors import StorageUnavailable

RESTORING = "restore.partial"
"""An entry of a data folder into which a backup is being restored."""
_MIN_SECRET_CHARACTERS = 32
# With less free space the column store refuses inserts, including those of its schema.
_MIN_FREE_BYTES = 64 * 2**20
# A Unix socket's path has 107 bytes at most (`sun_path`).
_MAX_SOCKET_PATH_BYTES = 107
FILES_OF_FIRST_START = ("lock", "tmp", "control.sqlite", "event-log.sqlite")
"""Entries that each data folder has. They belong to the user who runs Pharos."""
_RESTORE = "Restore the whole data folder from a backup, or choose another --data."
# Advice for one damaged file. With an older event log, a newer column store would drop new records as duplicates.
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
def lock_data_folder(data: Path) -> Iterator[None]:
    """Create the folder, lock it, and use it for temporary files. Raises `DataFolderInUse` and `DataFolderUnusable`."""
    with contextlib.ExitStack() as stack:
        with explain_file_errors(data):
            _check_path_length(data)
            data.mkdir(parents=True, exist_ok=True, mode=0o700)
            _check_owner(data)
            if (data / RESTORING).exists():
                raise DataFolderUnusable(
                    f"A restore into {data} is in progress, or was interrupted. If none runs, delete the folder and "
                    "restore the backup again."
                )
            lock = stack.enter_context(open(data / "lock", "w"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DataFolderInUse(
                    f"Another process runs on {data}, probably `pharos up`. `pharos doctor --data {data}` shows its "
                    "address. Stop it with Ctrl-C in its terminal, or choose another --data and --port."
                ) from None
            # On a full disk no database can be opened, and nobody could sign in to free space.
            make_space_on_full_disk(data)
            # Temporary files of a killed process are removed: the ClickHouse client passes inserts in files. The path
            # is absolute because child processes have other working folders.
            scratch = (data / "tmp").absolute()
            with explain_file_errors(scratch), contextlib.suppress(FileNotFoundError):
                shutil.rmtree(scratch)
            scratch.mkdir(mode=0o700)
            _check_file_types(data)
        before, tempfile.tempdir = tempfile.tempdir, str(scratch)
        try:
            yield
        finally:
            tempfile.tempdir = before


def read_secret(path: Path) -> str:
    """Return the secret in `path`, which the first start creates. Raises `DataFolderUnusable`."""
    with explain_file_errors(path):
        secret = ensure_secret(path)
    if len(secret) < _MIN_SECRET_CHARACTERS:
        # A crash may have emptied the file. A guessable key would be worse than a failed start.
        raise DataFolderUnusable(
            f"{path} holds a secret of {len(secret)} characters; it needs {_MIN_SECRET_CHARACTERS} or more. Restore it "
            "from a backup."
        )
    return secret


@contextlib.contextmanager
def explain_file_errors(path: Path) -> Iterator[None]:
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
        why = "it is not text" if isinstance(error, UnicodeDecodeError) else driver_message(found)
        raise DataFolderUnusable(f"{path} cannot be read: {why}. {_advice_for_damage(path)}") from error
    except StorageUnavailable as error:
        # Engines report a full disk in many ways ("disk I/O error").
        is_full = _is_full(path)
        why = os.strerror(errno.ENOSPC) if is_full else str(error).rstrip(".")
        advice = _ADVICE[errno.ENOSPC] if is_full else _advice_for_damage(path)
        at = "" if str(path) in why else f"{path} cannot be used: "
        raise DataFolderUnusable(f"{at}{why}. {advice}") from error


def _advice_for_damage(path: Path) -> str:
    return _DAMAGED.get(path.name, _RESTORE)


def _check_owner(data: Path) -> None:
    """Raise `DataFolderUnusable` for a folder that another user's Pharos has set up: this process could not start the
    applications that are deployed there."""
    for name in FILES_OF_FIRST_START:
        with contextlib.suppress(FileNotFoundError):
            owner = os.lstat(data / name).st_uid
            if owner != os.geteuid():
                raise DataFolderUnusable(
                    f"{data / name} belongs to {_user_name(owner)}, but Pharos runs as {_user_name(os.geteuid())}. Run "
                    f"it as {_user_name(owner)}, or choose another --data."
                )


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _is_full(path: Path) -> bool:
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _MIN_FREE_BYTES


def _check_path_length(data: Path) -> None:
    length = len(str(data / "operator.sock").encode())
    if length > _MAX_SOCKET_PATH_BYTES:
        raise DataFolderUnusable(
            f"The path of the data folder is too long: {data / 'operator.sock'} has {length} bytes, and a Unix socket "
            f"takes {_MAX_SOCKET_PATH_BYTES}. Choose a shorter --data."
        )


def _check_file_types(data: Path) -> None:
    """Raise `OSError` or `DataFolderUnusable` for a path that its engine could not open: the engines do not report the
    reason."""
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
