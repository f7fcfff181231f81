"""The files of a backup of the data folder, in the order in which they must be read."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

KEYS = ("receipt.key", "variables.key")
FILES = ("credentials.json", "demo.json")
NOT_BACKED_UP = {
    # Deleted salts must not return: with them visitors could be recognised.
    "salts.json",
    "backups",
    "last-backup.json",
    "disk-reserve",
    "lock",
    "operator.sock",
    "tmp",
}
DEPLOYER = "deployer"
# Entries of the deployer's folder that are not backed up: its lock, builds in progress, and trees that are being
# deleted.
_PASSING = {"lock", "sealing", "removed"}
# clickhouse/store/<prefix>/<uuid>
_DEPTH_OF_TABLES = 4


class Source(NamedTuple):
    """A file, folder or link, and its path in the archive."""

    path: Path
    name: str
    size: int
    """Size of a file in bytes; 0 for others."""


def walk(folder: Path, name: str, skipped: frozenset[str] = frozenset()) -> Iterator[Source]:
    """Yield the folder and everything below it, parents first, except for entries with these names directly in it.
    Files that are deleted meanwhile are omitted, and so are sockets and pipes."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    yield Source(folder, name, 0)
    for entry in entries:
        if entry.name in skipped:
            continue
        try:
            state = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        below = f"{name}/{entry.name}"
        if stat.S_ISDIR(state.st_mode):
            yield from walk(Path(entry.path), below)
        elif stat.S_ISREG(state.st_mode):
            yield Source(Path(entry.path), below, state.st_size)
        elif stat.S_ISLNK(state.st_mode):
            yield Source(Path(entry.path), below, 0)


def walk_store(store: Path, frozen: Path) -> Iterator[Source]:
    """Yield the column store as it was when it was frozen: its definitions, and the frozen parts under their original
    paths."""
    yield Source(store, store.name, 0)
    for name in ("metadata", "data"):
        yield from walk(store / name, f"{store.name}/{name}")
    yield Source(store / "store", f"{store.name}/store", 0)
    for folder in sorted((store / "store").glob("*/*")):
        name = f"{store.name}/store/{folder.parent.name}"
        yield Source(folder.parent, name, 0)
        yield Source(folder, f"{name}/{folder.name}", 0)
        # Definitions of the tables of a database, and files of a table other than its parts. Not `deduplication_logs/`:
        # the tokens of inserts after the snapshot would make new rows look inserted.
        for path in sorted(path for path in folder.iterdir() if path.is_file()):
            yield from _file(path, f"{name}/{folder.name}/{path.name}")
    for source in walk(frozen / "store", f"{store.name}/store"):
        if len(source.name.split("/")) > _DEPTH_OF_TABLES:
            yield source


def _file(path: Path, name: str) -> Iterator[Source]:
    try:
        yield Source(path, name, path.stat().st_size)
    except FileNotFoundError:
        return


def walk_repositories(data: Path) -> Iterator[Source]:
    """Yield the bare repositories. Loose references come before packed ones, and both before the objects: so the
    objects include everything that a reference names, even if somebody pushes meanwhile."""
    for folder in sorted(data.glob("*.git")):
        name = folder.name
        yield Source(folder, name, 0)
        yield from walk(folder / "refs", f"{name}/refs")
        for source in walk(folder, name, frozenset({"refs", "objects"})):
            if source.path != folder:
                yield source
        yield from walk(folder / "objects", f"{name}/objects")


def walk_deployer(data: Path) -> Iterator[Source]:
    """Yield artefacts and the files that applications keep. `database.json` is not included: it is read before the
    snapshot, because a deployer refuses a database that is older than this file."""
    yield from walk(data / DEPLOYER, DEPLOYER, frozenset({*_PASSING, "database.json"}))


def list_unknown(data: Path) -> list[str]:
    """Return the entries of the data folder that Pharos did not create and no backup includes."""
    known = {
        *KEYS,
        *FILES,
        *NOT_BACKED_UP,
        DEPLOYER,
        "clickhouse",
        "send-state",
        "control.sqlite",
        "event-log.sqlite",
    }
    beside = {
        f"{name}{suffix}" for name in ("control.sqlite", "event-log.sqlite") for suffix in ("-wal", "-shm")
    }
    return sorted(
        entry.name
        for entry in data.iterdir()
        if entry.name not in known | beside and not entry.name.endswith(".git")
    )
