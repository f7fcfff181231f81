"""Backups of a small data folder: their content, the causes of failures, and the folders for a restore."""

import asyncio
import contextlib
import json
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from control_domain.database.engine import open_engine
from control_domain.database.migrations.upgrade import upgrade_database
from control_domain.storage.backups import describe_backups, list_backups
from pipeline_contracts.settings import Settings
from storage_backends.event_log.sqlite import open_sqlite_log
from wiring.embedded.backups import create, guarded_writer
from wiring.embedded.backups.create import create_backup, make_request, prune_scheduled
from wiring.embedded.backups.errors import BackupFailed
from wiring.embedded.backups.restore import read_manifest, restore_backup
from wiring.embedded.backups.snapshot import Engines
from wiring.embedded.data_folder import RESTORING, DataFolderUnusable, lock_data_folder

_KEYS = ("receipt.key", "variables.key")


@pytest.fixture
async def engines(tmp_path: Path) -> AsyncIterator[Engines]:
    """A data folder with a control database, a log with a record, keys, a repository and an application; the column
    store has no tables."""
    data = tmp_path / "data"
    for folder in (
        "clickhouse/metadata",
        "clickhouse/data/pharos",
        "repository.git/refs/heads",
        "deployer/homes/env_1",
    ):
        (data / folder).mkdir(parents=True)
    for name in _KEYS:
        (data / name).write_text("k" * 40)
    (data / "salts.json").write_text("{}")
    (data / "notes.txt").write_text("of a person")
    (data / "repository.git" / "refs" / "heads" / "main").write_text("0" * 40)
    (data / "deployer" / "homes" / "env_1" / "upload").write_bytes(os.urandom(5 * 2**20))
    (data / "deployer" / "database.json").write_text("{}")
    (data / "deployer" / "lock").write_text("")
    database = open_engine(f"sqlite+aiosqlite:///{data / 'control.sqlite'}")
    await upgrade_database(database)
    log = await open_sqlite_log(data / "event-log.sqlite", 2**30)
    await log.append("pharos.telemetry", b"k", b"m", b"value")

    @contextlib.asynccontextmanager
    async def paused() -> AsyncIterator[None]:
        yield

    async def query(_sql: str) -> Any:
        return SimpleNamespace(rows=[])

    yield Engines(data, log, cast(Any, SimpleNamespace(paused_inserts=paused, query=query)))
    await log.close()
    await database.dispose()


async def test_a_backup_is_private_and_is_restored_into_an_empty_folder_only(
    engines: Engines, tmp_path: Path
) -> None:
    made = await create_backup(engines, make_request(Settings(), engines.data, "command"))
    backup = Path(made["path"])
    assert backup.parent == engines.data / "backups"
    modes = {stat.S_IMODE(path.stat().st_mode) for path in backup.iterdir()}
    assert (modes, stat.S_IMODE(backup.stat().st_mode)) == ({0o600}, 0o700)
    assert (made["counts"]["event_log"], made["has_keys"]) == ({"pharos.telemetry": 1}, True)
    assert made["warnings"] == ["Not of Pharos, and not backed up: notes.txt."]
    target = tmp_path / "restored"
    restored = restore_backup(backup, target)
    assert restored["missing_keys"] == []
    found = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert found == {
        "control.sqlite",
        "event-log.sqlite",
        *_KEYS,
        "repository.git/refs/heads/main",
        "deployer/database.json",
        "deployer/homes/env_1/upload",
    }
    upload = "deployer/homes/env_1/upload"
    assert (target / upload).read_bytes() == (engines.data / upload).read_bytes()
    for folder, expected in ((engines.data, "is not empty"), (target, "is not empty")):
        with pytest.raises(BackupFailed, match=expected):
            restore_backup(backup, folder)
    # A folder of a killed restore does not start, and accepts no restore.
    (target / RESTORING).mkdir()
    with pytest.raises(DataFolderUnusable, match="was interrupted"), lock_data_folder(target):
        pass
    with pytest.raises(BackupFailed, match="interrupted restore"):
        restore_backup(backup, target)


async def test_damaged_or_newer_backups_are_refused_and_leave_nothing(
    engines: Engines, tmp_path: Path
) -> None:
    made = await create_backup(engines, make_request(Settings(), engines.data, "command", tmp_path / "to"))
    backup, target = Path(made["path"]), tmp_path / "restored"
    archive = backup / "deployer.tar"
    content = archive.read_bytes()
    archive.write_bytes(content[:-1] + b"x")
    with pytest.raises(BackupFailed, match=r"deployer\.tar is damaged"):
        restore_backup(backup, target)
    assert not target.exists()
    target.mkdir()
    with pytest.raises(BackupFailed, match="damaged"):
        restore_backup(backup, target)
    assert list(target.iterdir()) == []
    archive.unlink()
    with pytest.raises(BackupFailed, match="cannot be read"):
        restore_backup(backup, target)
    archive.write_bytes(content)
    with pytest.raises(BackupFailed, match="MiB free"):
        restore_backup(backup, target, reserve_bytes=2**60)
    manifest = json.loads((backup / "manifest.json").read_text())
    for change in ({"revision": "9999"}, {"format": 2}):
        (backup / "manifest.json").write_text(json.dumps({**manifest, **change}))
        with pytest.raises(BackupFailed, match="was made by version"):
            read_manifest(backup)


async def test_keys_that_are_not_in_a_backup_are_named(engines: Engines, tmp_path: Path) -> None:
    settings = Settings(variables_key="v" * 40)
    made = await create_backup(
        engines, make_request(settings, engines.data, "command", tmp_path / "to", with_keys=False)
    )
    assert made["has_keys"] is False
    assert [warning.partition(".")[0] for warning in made["warnings"][:2]] == [
        "receipt",
        "The key in PHAROS_VARIABLES_KEY is not in the backup",
    ]
    restored = restore_backup(Path(made["path"]), tmp_path / "restored")
    assert restored["missing_keys"] == [*_KEYS]
    assert not (tmp_path / "restored" / "variables.key").exists()


async def test_a_full_disk_a_cancelled_and_a_killed_backup_leave_no_backup(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = engines.data / "backups"
    request = make_request(Settings(), engines.data, "schedule")

    def shown() -> tuple[list[str], str | None]:
        document = describe_backups(engines.data, None, 24.0, 7)
        attempt = document["last_attempt"]
        assert attempt is not None and attempt["source"] == "schedule"
        return sorted(path.name for path in folder.iterdir() if path.name != ".lock"), attempt["error"]

    # Too little space at the beginning, and space that other processes use meanwhile.
    full = make_request(Settings(min_free_bytes=2**60), engines.data, "schedule")
    with pytest.raises(BackupFailed, match="PHAROS_MIN_FREE_BYTES"):
        await create_backup(engines, full)
    names, error = shown()
    assert (names, "MiB free" in str(error)) == ([], True)
    free = iter([2**50, *[0] * 100])
    with monkeypatch.context() as patched:
        patched.setattr(guarded_writer.shutil, "disk_usage", lambda _at: SimpleNamespace(free=next(free)))
        with pytest.raises(BackupFailed, match="MiB free"):
            await create_backup(engines, request)
    assert shown()[0] == []
    # The next backup removes the files of a killed one.
    (folder / "2026-01-01T00-00-00Z.partial").mkdir()
    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    def write_slowly(*_given: Any) -> Any:
        loop.call_soon_threadsafe(started.set)
        job = _given[2]
        while True:
            job.advance(0)

    with monkeypatch.context() as patched:
        patched.setattr(create, "write_archive", write_slowly)
        making = asyncio.create_task(create_backup(engines, request))
        await started.wait()
        with pytest.raises(BackupFailed, match="Another backup"):
            await create_backup(engines, request)
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
    assert shown() == ([], "It was cancelled.")
    made = await create_backup(engines, request)
    assert shown() == ([made["name"]], None)
    assert [backup["name"] for backup in list_backups(folder)] == [made["name"]]


async def test_only_scheduled_backups_are_pruned(engines: Engines) -> None:
    folder = engines.data / "backups"
    for day, source in ((1, "schedule"), (2, "command"), (3, "schedule"), (4, "schedule")):
        path = folder / f"2026-01-0{day}T00-00-00Z"
        path.mkdir(parents=True)
        manifest = {
            "created_at": f"2026-01-0{day}T00:00:00Z",
            "seconds": 1,
            "bytes": 1,
            "source": source,
            "has_keys": True,
            "warnings": [],
        }
        (path / "manifest.json").write_text(json.dumps(manifest))
    assert prune_scheduled(folder, 2) == ["2026-01-01T00-00-00Z"]
    assert [backup["name"][:10] for backup in list_backups(folder)] == [
        "2026-01-04",
        "2026-01-03",
        "2026-01-02",
    ]
