"""The backups in a folder: their manifests, the results of their restore tests, and the last attempt to make one.

A backup is a subfolder with a manifest. The name of a backup that is unfinished or interrupted ends in `.partial`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, cast

from msgspec import Meta

MANIFEST = "manifest.json"
RESTORE_TEST = "restore-test.json"
LAST_ATTEMPT = "last-backup.json"
"""A file in the data folder."""
PARTIAL = ".partial"
BackupSource = Literal["command", "schedule"]
_MAX_LISTED = 100


class RestoreTestDocument(TypedDict):
    """The result of restoring a backup into a scratch folder with the real engines."""

    at: str
    passed: bool
    seconds: float
    problems: Annotated[
        list[str], Meta(description="Differences from the backup's manifest; empty if the test passed.")
    ]


class BackupDocument(TypedDict):
    """A complete backup."""

    name: str
    created_at: Annotated[str, Meta(description="Everything accepted before this time is in the backup.")]
    seconds: Annotated[float, Meta(description="How long the backup took.")]
    bytes: int
    source: BackupSource
    has_keys: Annotated[
        bool,
        Meta(description="False if the backup lacks the keys that open sealed values: keep them elsewhere."),
    ]
    warnings: list[str]
    restore_test: RestoreTestDocument | None


class BackupAttemptDocument(TypedDict):
    """The last attempt to make a backup, in any folder."""

    at: str
    seconds: float
    source: BackupSource
    folder: str
    name: str
    error: Annotated[str | None, Meta(description="Why the attempt failed; null if it succeeded.")]


class BackupsDocument(TypedDict):
    """The backups of the installation."""

    is_supported: Annotated[
        bool,
        Meta(description="False with one process per part: then back up Postgres, ClickHouse and Kafka."),
    ]
    folder: Annotated[
        str | None, Meta(description="The folder of the backups on the installation's machine.")
    ]
    every_hours: Annotated[
        float | None,
        Meta(description="The interval of scheduled backups. Null if backups are made only by hand."),
    ]
    keep: Annotated[int, Meta(description="The number of scheduled backups that are kept.")]
    last_attempt: BackupAttemptDocument | None
    backups: Annotated[list[BackupDocument], Meta(description="The newest first, 100 at most.")]


def list_backups(folder: Path) -> list[BackupDocument]:
    """Return the complete backups in the folder, the newest first. Blocks on the file system."""
    if not folder.is_dir():
        return []
    names = sorted((path.name for path in folder.iterdir() if not path.name.endswith(PARTIAL)), reverse=True)
    found = [
        describe_backup(folder / name, manifest)
        for name in names
        if (manifest := read_document(folder / name / MANIFEST)) is not None
    ]
    return sorted(found, key=lambda backup: backup["created_at"], reverse=True)


def describe_backup(path: Path, manifest: Mapping[str, Any]) -> BackupDocument:
    """Return the public document of a backup."""
    return {
        "name": path.name,
        "created_at": manifest["created_at"],
        "seconds": manifest["seconds"],
        "bytes": manifest["bytes"],
        "source": manifest["source"],
        "has_keys": manifest["has_keys"],
        "warnings": manifest["warnings"],
        "restore_test": cast(RestoreTestDocument | None, read_document(path / RESTORE_TEST)),
    }


def describe_backups(
    data_folder: Path | None, folder: Path | None, every_hours: float, keep: int
) -> BackupsDocument:
    """Return the document; `data_folder` is None where the engines are servers. Blocks on the file system."""
    at = find_backup_folder(data_folder, folder)
    attempt = None if data_folder is None else read_document(data_folder / LAST_ATTEMPT)
    return {
        "is_supported": data_folder is not None,
        "folder": None if at is None else str(at.absolute()),
        "every_hours": every_hours or None,
        "keep": keep,
        "last_attempt": cast(BackupAttemptDocument | None, attempt),
        "backups": [] if at is None else list_backups(at)[:_MAX_LISTED],
    }


def find_backup_folder(data_folder: Path | None, folder: Path | None) -> Path | None:
    """Return the folder of the backups: the setting, or `backups` in the data folder."""
    if data_folder is None:
        return None
    return folder or data_folder / "backups"


def read_document(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file; None if there is none, or it is damaged."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None
