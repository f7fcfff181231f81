"""Errors of an unusable data folder: one sentence with the file, the reason and the remedy."""

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from pipeline_contracts.errors import StorageUnavailable
from wiring.embedded.data_folder import (
    DataFolderInUse,
    DataFolderUnusable,
    explain_file_errors,
    lock_data_folder,
    read_secret,
)

_FILE = "Not a directory. Move that file away, or choose another --data."
_FOLDER = "Is a directory. Move that folder away, or choose another --data."
_NO_SOCKET = "it is not a socket. Move it away, or choose another --data."


def _file(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text("x")


def _folder(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).mkdir()


# The change of a folder, and the fault: the path in the folder, and the rest of the sentence.
_FAULTS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "the lock is a folder": (_folder("lock"), "/lock", _FOLDER),
    "temporary files are a file": (_file("tmp"), "/tmp", _FILE),
    "the database is a folder": (_folder("control.sqlite"), "/control.sqlite", _FOLDER),
    "the log is a folder": (_folder("event-log.sqlite"), "/event-log.sqlite", _FOLDER),
    "the column store is a file": (_file("clickhouse"), "/clickhouse", _FILE),
    "the deployer's folder is a file": (_file("deployer"), "/deployer", _FILE),
    "the socket is a file": (_file("operator.sock"), "/operator.sock", _NO_SOCKET),
    "the socket is a folder": (_folder("operator.sock"), "/operator.sock", _NO_SOCKET),
}


@pytest.mark.parametrize(("spoil", "place", "why"), _FAULTS.values(), ids=_FAULTS.keys())
def test_unusable_file_in_the_folder_is_named(
    spoil: Callable[[Path], object], place: str, why: str, tmp_path: Path
) -> None:
    spoil(tmp_path)
    with pytest.raises(DataFolderUnusable) as fault, lock_data_folder(tmp_path):
        pass
    assert str(fault.value) == f"{tmp_path}{place} cannot be used: {why}"


def test_unusable_folder_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path, why in (
        (file, _FILE),
        (file / "below", _FILE),
        (Path("/proc/1/pharos"), "No such file or directory. Choose another --data."),
    ):
        with pytest.raises(DataFolderUnusable) as fault, lock_data_folder(path):
            pass
        assert str(fault.value) == f"{path} cannot be used: {why}"
    with (
        pytest.raises(DataFolderUnusable, match="107. Choose a shorter --data"),
        lock_data_folder(tmp_path / ("x" * 107)),
    ):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    readable = tmp_path / "readable"
    readable.mkdir(mode=0o755)
    # The folders above may be entered.
    for above in (tmp_path, *tmp_path.parents[:2]):
        above.chmod(0o755)
    os.seteuid(65_534)
    try:
        for folder, place in ((data, "/lock"), (readable, "/lock"), (tmp_path / "new", "")):
            with pytest.raises(DataFolderUnusable) as fault, lock_data_folder(folder):
                pass
            assert str(fault.value) == (
                f"{folder}{place} cannot be used: Permission denied. Run as the user who owns it, or choose another "
                "--data."
            )
    finally:
        os.seteuid(0)


def test_folder_in_use_is_refused(tmp_path: Path) -> None:
    # A newly opened file has a separate lock even in the same process.
    with (
        lock_data_folder(tmp_path),
        pytest.raises(DataFolderInUse, match="Another process runs on"),
        lock_data_folder(tmp_path),
    ):
        pass
    with open(tmp_path / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "x", "/data/new"), "/data/new cannot be used: No space left on device. Free some space"),
        (OSError(errno.EROFS, "x", "/data/new"), "/data/new cannot be used: Read-only file system. Choose a --data on"),
        (OSError("Address is odd"), "/data/file cannot be used: Address is odd. Choose another --data."),
        (
            StorageUnavailable("A newer version has upgraded it. Start the newer version."),
            "/data/file cannot be used: A newer version has upgraded it. Start the newer version. Restore the whole",
        ),
        (
            StorageUnavailable("The log at /data/file cannot be opened: no database"),
            "The log at /data/file cannot be opened: no database. Restore the whole data folder from a backup, or",
        ),
        (
            DBAPIError("SELECT secret", None, Exception("file is not a database")),
            "/data/file cannot be read: file is not a database. Restore the whole data folder from a backup, or",
        ),
    ],
)  # fmt: skip
def test_errors_are_explained(error: Exception, told: str) -> None:
    with pytest.raises(DataFolderUnusable) as fault, explain_file_errors(Path("/data/file")):
        raise error
    assert str(fault.value).startswith(told)


def test_advice_for_a_damaged_file_loses_nothing_else() -> None:
    """An older event log next to a newer column store would drop new records as duplicates."""
    for name, error, message in (
        (
            "event-log.sqlite",
            StorageUnavailable("no database"),
            "no database. If the file is damaged, delete it",
        ),
        ("salts.json", UnicodeDecodeError("utf-8", b"\x9c", 0, 1, "x"), "it is not text. Delete it"),
        ("control.sqlite", StorageUnavailable("no database"), "no database. Restore the whole data folder"),
    ):
        with pytest.raises(DataFolderUnusable) as fault, explain_file_errors(Path("/data") / name):
            raise error
        assert message in str(fault.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_folder_set_up_by_another_user_is_refused(tmp_path: Path) -> None:
    for name, owner, called in (("lock", 1, "daemon"), ("control.sqlite", 64_999, "user 64999")):
        data = tmp_path / name
        data.mkdir()
        (data / name).touch()
        os.chown(data / name, owner, owner)
        with pytest.raises(DataFolderUnusable) as fault, lock_data_folder(data):
            pass
        assert str(fault.value) == (
            f"{data / name} belongs to {called}, but Pharos runs as root. Run it as {called}, or choose another --data."
        )


def test_secret_is_created_once_and_an_emptied_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "receipt.key"
    secret = read_secret(path)
    assert len(secret) == 43
    assert read_secret(path) == secret
    path.write_text("short-secret\n")
    with pytest.raises(DataFolderUnusable) as fault:
        read_secret(path)
    assert "holds a secret of 12 characters" in str(fault.value)
    assert "short-secret" not in str(fault.value)
    path.write_bytes(b"\xff" * 40)
    with pytest.raises(DataFolderUnusable, match="cannot be read"):
        read_secret(path)
