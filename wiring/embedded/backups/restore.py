"""Restores a backup into a new data folder."""

import shutil
from pathlib import Path
from typing import Any

from control_domain.database.migrations.upgrade import newest_revision
from control_domain.storage.backups import MANIFEST, read_document
from wiring.embedded.backups.archive import extract_archive
from wiring.embedded.backups.create import FORMAT
from wiring.embedded.backups.errors import BackupFailed
from wiring.embedded.backups.guarded_writer import RESERVE_BYTES, Job, OnProgress, hash_file, sync_folder
from wiring.embedded.backups.sources import KEYS
from wiring.embedded.data_folder import RESTORING

_ARCHIVE = ".tar"


def read_manifest(backup: Path) -> dict[str, Any]:
    """Return the manifest of a backup that this version can restore. Raises `BackupFailed`."""
    manifest = read_document(backup / MANIFEST)
    if manifest is None:
        raise BackupFailed(f"{backup} is not a complete backup: it has no readable {MANIFEST}.")
    if manifest.get("format") != FORMAT or manifest.get("revision", "") > newest_revision():
        raise BackupFailed(
            f"{backup} was made by version {manifest.get('version')} of Pharos, with revision "
            f"{manifest.get('revision')} of the database; this version knows revisions up to {newest_revision()}. "
            "Restore it with that version, or a newer one."
        )
    return manifest


def restore_backup(
    backup: Path,
    data: Path,
    *,
    reserve_bytes: int = RESERVE_BYTES,
    on_progress: OnProgress = lambda _step, _done, _total: None,
) -> dict[str, Any]:
    """Restore into a folder that is empty or does not exist, and return what was restored. Raises `BackupFailed`; the
    folder is then as it was before."""
    manifest = read_manifest(backup)
    try:
        is_new = _prepare(data)
        partial = data / RESTORING
        try:
            job = Job(data, reserve_bytes, manifest["bytes"], on_progress)
            job.check_space(manifest["bytes"])
            partial.mkdir(mode=0o700)
            extract_backup(backup, manifest, partial, job)
            for entry in sorted(partial.iterdir()):
                entry.rename(data / entry.name)
            sync_folder(data)
            # The last step: a data folder with this entry is not complete, and does not start.
            partial.rmdir()
            sync_folder(data)
        except BaseException:
            _empty(data)
            if is_new:
                data.rmdir()
            raise
    except OSError as error:
        raise BackupFailed(f"The restore failed: {error}.") from error
    missing = [] if manifest["has_keys"] else [name for name in KEYS if name not in manifest["files"]]
    return {
        "name": backup.name,
        "data": str(data),
        "created_at": manifest["created_at"],
        "bytes": manifest["bytes"],
        "missing_keys": missing,
    }


def extract_backup(backup: Path, manifest: dict[str, Any], target: Path, job: Job) -> None:
    """Check each file of the backup against the manifest, and extract it into the folder. Raises `BackupFailed`."""
    for name, facts in manifest["files"].items():
        job.begin(name.removesuffix(_ARCHIVE))
        path = backup / name
        try:
            size, digest = hash_file(path)
        except OSError as error:
            raise BackupFailed(f"{path} cannot be read: {error.strerror}.") from error
        if (size, digest) != (facts["bytes"], facts["sha256"]):
            raise BackupFailed(
                f"{path} is damaged: its SHA-256 is not the one of the manifest. Take another backup."
            )
        if name.endswith(_ARCHIVE):
            extract_archive(path, target, job)
        else:
            job.advance(size)
            shutil.copyfile(path, target / name)
            (target / name).chmod(0o600)


def _prepare(data: Path) -> bool:
    """Make sure that the folder exists and is empty; return True if it was created."""
    try:
        data.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        found = sorted(entry.name for entry in data.iterdir())
        if RESTORING in found:
            raise BackupFailed(
                f"An interrupted restore has left {data}. Delete it, and restore again."
            ) from None
        if found:
            raise BackupFailed(
                f"{data} is not empty: it has {found[0]}. A backup is restored into a new data folder only; name "
                "another --data."
            ) from None
        return False
    return True


def _empty(data: Path) -> None:
    for entry in data.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink()
