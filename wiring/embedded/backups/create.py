"""Makes a backup of the data folder, whether or not the platform runs."""

import asyncio
import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from control_domain.database.migrations.upgrade import newest_revision
from control_domain.first_account.account import write_private
from control_domain.storage.backups import LAST_ATTEMPT, MANIFEST, PARTIAL, BackupSource, list_backups
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.settings import Settings
from pipeline_contracts.times import format_time
from wiring.embedded.backups.archive import copy_database, copy_small_file, write_archive
from wiring.embedded.backups.errors import BackupFailed
from wiring.embedded.backups.facts import count_frozen, count_records, count_rows
from wiring.embedded.backups.guarded_writer import RESERVE_BYTES, Job, OnProgress, sync_folder
from wiring.embedded.backups.snapshot import CONTROL, LOG, STORE, Engines, Snapshot, snapshot
from wiring.embedded.backups.sources import (
    DEPLOYER,
    FILES,
    KEYS,
    Source,
    list_unknown,
    walk,
    walk_deployer,
    walk_repositories,
    walk_store,
)

FORMAT = 1
_LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class Request:
    """The source and the target of a backup."""

    folder: Path
    source: BackupSource
    with_keys: bool = True
    reserve_bytes: int = RESERVE_BYTES
    keys_elsewhere: tuple[str, ...] = ()
    """Keys that are in a setting instead of a file in the data folder."""
    on_progress: OnProgress = lambda _step, _done, _total: None


def make_request(
    settings: Settings,
    data: Path,
    source: BackupSource,
    folder: Path | None = None,
    *,
    with_keys: bool = True,
    on_progress: OnProgress = lambda _step, _done, _total: None,
) -> Request:
    """Return a request from the settings. `folder` takes precedence over the setting."""
    default = Path(settings.backup_folder) if settings.backup_folder else data / "backups"
    elsewhere = [
        name
        for name, value in (("receipt.key", settings.receipt_key), ("variables.key", settings.variables_key))
        if value
    ]
    return Request(
        (folder or default).absolute(),
        source,
        with_keys,
        settings.min_free_bytes,
        tuple(elsewhere),
        on_progress,
    )


async def create_backup(engines: Engines, request: Request) -> dict[str, Any]:
    """Make a backup and return its manifest; record the attempt in the data folder. A cancelled backup is removed.
    Raises `BackupFailed`."""
    started, at = time.monotonic(), datetime.now(UTC)
    name = f"{at:%Y-%m-%dT%H-%M-%SZ}"
    error: str | None = None
    try:
        manifest = await _create(engines, request, name, started)
    except (OSError, StorageUnavailable) as failure:
        error = f"The backup failed: {failure}"
        raise BackupFailed(error) from failure
    except BackupFailed as failure:
        error = str(failure)
        raise
    except asyncio.CancelledError:
        error = "It was cancelled."
        raise
    finally:
        attempt = {
            "at": format_time(at),
            "seconds": round(time.monotonic() - started, 3),
            "source": request.source,
            "folder": str(request.folder),
            "name": name,
            "error": error,
        }
        with contextlib.suppress(OSError):
            write_private(engines.data / LAST_ATTEMPT, msgspec.json.encode(attempt).decode() + "\n")
    return manifest


async def _create(engines: Engines, request: Request, name: str, started: float) -> dict[str, Any]:
    with lock_folder(request.folder):
        remove_partial(request.folder)
        partial = request.folder / f"{name}{PARTIAL}"
        job = Job(request.folder, request.reserve_bytes, on_progress=request.on_progress)
        earlier = await asyncio.to_thread(_read_before_snapshot, engines.data)
        async with snapshot(engines) as taken:
            copying = asyncio.create_task(
                asyncio.to_thread(_copy, engines.data, partial, request, job, taken, earlier)
            )
            try:
                manifest = await asyncio.shield(copying)
            except BaseException:
                # The thread continues until it notices the cancellation. The snapshot must last until then, and this
                # task may be cancelled more than once.
                job.cancelled.set()
                while not copying.done():
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.wait({copying})
                if not copying.cancelled():
                    # Retrieve the exception, so that asyncio does not log it.
                    copying.exception()
                await asyncio.to_thread(shutil.rmtree, partial, True)
                raise
        manifest["seconds"] = round(time.monotonic() - started, 3)
        await asyncio.to_thread(_complete, partial, request.folder / name, manifest)
    return {"name": name, "path": str(request.folder / name), **manifest}


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Create the folder and lock it against other backups and restore tests. Raises `BackupFailed`."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise BackupFailed(f"{folder} cannot be used: {error.strerror}.") from error
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupFailed(
                f"Another backup or restore test runs in {folder}. Wait for its end."
            ) from None
        yield
    finally:
        os.close(file)


def remove_partial(folder: Path) -> None:
    """Remove the remains of interrupted backups and restore tests. The folder must be locked."""
    for left in folder.glob(f"*{PARTIAL}"):
        shutil.rmtree(left, ignore_errors=True)


def _read_before_snapshot(data: Path) -> dict[str, bytes]:
    """Return files that must not be newer than the snapshot: a deployer refuses an older database than its memory has
    seen, and `pharos send` must not skip lines that the snapshot does not have."""
    found: dict[str, bytes] = {}
    memory = data / DEPLOYER / "database.json"
    for source in (*walk(data / "send-state", "send-state"), Source(memory, f"{DEPLOYER}/database.json", 0)):
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            found[source.name] = source.path.read_bytes()
    return found


def _copy(
    data: Path, partial: Path, request: Request, job: Job, taken: Snapshot, earlier: dict[str, bytes]
) -> dict[str, Any]:
    archives = {
        "column-store.tar": ("Column store", list(walk_store(data / STORE, taken.frozen)), {}),
        "repositories.tar": ("Repositories", list(walk_repositories(data)), {}),
        "deployer.tar": ("Applications", list(walk_deployer(data)), earlier),
    }
    job.total_bytes = taken.control.bytes() + taken.log.bytes()
    job.total_bytes += sum(source.size for _, sources, _ in archives.values() for source in sources)
    job.check_space(job.total_bytes)
    partial.mkdir(mode=0o700)
    files: dict[str, Any] = {}
    # Copy the databases first: their write-ahead logs grow until their read transactions end.
    job.begin("Databases")
    files[CONTROL] = copy_database(taken.control, partial / CONTROL, job)
    files[LOG] = copy_database(taken.log, partial / LOG, job)
    counts = {
        "control": count_rows(taken.control),
        "event_log": count_records(taken.log),
        "column_store": count_frozen(data / STORE, taken.frozen),
    }
    taken.release_databases()
    warnings = _warn_of_keys(data, request)
    wanted = [*FILES, *(KEYS if request.with_keys else ())]
    for name in wanted:
        if (data / name).exists():
            files[name] = copy_small_file(data / name, partial / name, job)
    for archive, (step, sources, first) in archives.items():
        job.begin(step)
        files[archive] = write_archive(partial / archive, sources, job, first)
    if unknown := list_unknown(data):
        warnings.append(f"Not of Pharos, and not backed up: {', '.join(unknown)}.")
    return {
        "format": FORMAT,
        "version": version("pharos"),
        "revision": newest_revision(),
        "created_at": format_time(taken.taken_at),
        "source": request.source,
        "has_keys": "variables.key" in files and "receipt.key" in files,
        "warnings": warnings,
        "bytes": sum(facts["bytes"] for facts in files.values()),
        "files": files,
        "counts": counts,
    }


def _warn_of_keys(data: Path, request: Request) -> list[str]:
    advice = "Without it, sealed variables, webhook secrets and second factors cannot be read: keep a copy elsewhere."
    warnings = []
    for name in KEYS:
        what = (
            advice if name == "variables.key" else "Without it, earlier receipt IDs are unknown: keep a copy."
        )
        if name in request.keys_elsewhere:
            setting = f"PHAROS_{name.partition('.')[0].upper()}_KEY"
            warnings.append(f"The key in {setting} is not in the backup. {what}")
        elif not request.with_keys and (data / name).exists():
            warnings.append(f"{name} is left out of the backup. {what}")
    return warnings


def _complete(partial: Path, final: Path, manifest: dict[str, Any]) -> None:
    """Rename a complete backup to its final name, durably."""
    content = msgspec.json.format(msgspec.json.encode(manifest), indent=2).decode() + "\n"
    write_private(partial / MANIFEST, content)
    sync_folder(partial)
    partial.rename(final)
    sync_folder(final.parent)


def prune_scheduled(folder: Path, keep: int) -> list[str]:
    """Delete the oldest scheduled backups beyond `keep`; return their names. Backups made by a command stay."""
    with lock_folder(folder):
        scheduled = [backup["name"] for backup in list_backups(folder) if backup["source"] == "schedule"]
        for name in scheduled[keep:]:
            # Rename it first: a half-deleted backup must not look complete.
            doomed = folder / f"{name}{PARTIAL}"
            (folder / name).rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)
    return scheduled[keep:]
