"""The restore test: restores a backup into a scratch folder with the real engines, and compares it with its manifest.

It runs in a separate process, because the column store's engine supports only one data path per process.
"""

import asyncio
import os
import secrets
import shutil
import subprocess
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from control_domain.database.engine import open_engine, open_sessions
from control_domain.database.migrations.upgrade import upgrade_database
from control_domain.first_account.account import write_private
from control_domain.key_rotation import reseal
from control_domain.sealing import CannotOpen, read_sealing_keys
from control_domain.storage.backups import PARTIAL, RESTORE_TEST
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.times import format_time
from storage_backends.column_store.apply_schema import apply_schema
from storage_backends.column_store.chdb_embedded import ChdbColumnStore, open_chdb
from storage_backends.event_log.sqlite_frames import read_frame
from storage_backends.sqlite_snapshot import SqliteSnapshot
from wiring.embedded.backups.create import lock_folder, remove_partial
from wiring.embedded.backups.errors import BackupFailed
from wiring.embedded.backups.facts import count_records, count_rows, find_tables, list_parts
from wiring.embedded.backups.guarded_writer import RESERVE_BYTES, Job, OnProgress
from wiring.embedded.backups.restore import extract_backup, read_manifest
from wiring.embedded.backups.snapshot import CONTROL, LOG, STORE

_GIT_SECONDS = 600
_RESEAL_ROWS = 500


async def verify_backup(
    backup: Path,
    *,
    reserve_bytes: int = RESERVE_BYTES,
    on_progress: OnProgress = lambda _step, _done, _total: None,
) -> dict[str, Any]:
    """Test a backup, write the result into it, and return the result. Raises `BackupFailed` if the test could not
    run."""
    started, at = time.monotonic(), datetime.now(UTC)
    manifest = read_manifest(backup)
    scratch = backup.parent / f"{backup.name}.restore-test{PARTIAL}"
    problems: list[str] = []
    with lock_folder(backup.parent):
        remove_partial(backup.parent)
        job = Job(backup.parent, reserve_bytes, manifest["bytes"], on_progress)
        job.check_space(manifest["bytes"])
        try:
            scratch.mkdir(mode=0o700)
            try:
                await asyncio.to_thread(extract_backup, backup, manifest, scratch, job)
            except BackupFailed as error:
                # Too little space is not a fault of the backup.
                job.check_space(0)
                problems.append(str(error))
            else:
                problems += await _compare(scratch, manifest, job)
        except OSError as error:
            raise BackupFailed(f"The restore test could not run: {error}.") from error
        finally:
            await asyncio.to_thread(shutil.rmtree, scratch, True)
        result = {
            "at": format_time(at),
            "passed": not problems,
            "seconds": round(time.monotonic() - started, 3),
            "problems": problems,
        }
        write_private(backup / RESTORE_TEST, msgspec.json.encode(result).decode() + "\n")
    return {"name": backup.name, **result}


async def _compare(scratch: Path, manifest: dict[str, Any], job: Job) -> list[str]:
    problems: list[str] = []
    job.begin("comparing databases")
    problems += await asyncio.to_thread(_check_databases, scratch, manifest["counts"])
    problems += await _check_sealed(scratch, manifest)
    job.begin("comparing repositories")
    problems += await asyncio.to_thread(_check_repositories, scratch)
    problems += await asyncio.to_thread(_check_releases, scratch)
    job.begin("comparing the column store")
    problems += await _check_store(scratch / STORE, manifest["counts"]["column_store"])
    return problems


def _check_databases(scratch: Path, counts: dict[str, Any]) -> list[str]:
    problems = []
    for name, count, expected in (
        (CONTROL, count_rows, counts["control"]),
        (LOG, count_records, counts["event_log"]),
    ):
        try:
            with closing(SqliteSnapshot(scratch / name)) as database:
                ((verdict,),) = database.rows("PRAGMA integrity_check(1)")
                if verdict != "ok":
                    problems.append(f"{name}: {verdict}.")
                problems += _differences(name, expected, count(database))
                if name == LOG:
                    # Read frames one by one: the log may be larger than the memory.
                    for (frame,) in database.rows("SELECT id FROM frames"):
                        ((first, payload),) = database.rows(
                            f"SELECT first, payload FROM frames WHERE id = {frame}"
                        )
                        read_frame(first, payload)
        except (ValueError, StorageUnavailable) as error:
            problems.append(f"{name}: {error}.")
    return problems


def _differences(of: str, expected: dict[str, Any], found: dict[str, Any]) -> list[str]:
    return [
        f"{of}: {name} has {found.get(name, 0)}, and had {expected.get(name, 0)}."
        for name in sorted({*expected, *found})
        if expected.get(name, 0) != found.get(name, 0)
    ]


async def _check_sealed(scratch: Path, manifest: dict[str, Any]) -> list[str]:
    """Open every sealed value with the backup's key, by sealing it again in the scratch folder. Without the key nothing
    is checked, and the manifest has a warning."""
    engine = open_engine(f"sqlite+aiosqlite:///{scratch / CONTROL}")
    try:
        await upgrade_database(engine)
        if "variables.key" not in manifest["files"]:
            return []
        keys = read_sealing_keys(f"{secrets.token_hex(32)},{(scratch / 'variables.key').read_text().strip()}")
        sessions = open_sessions(engine)
        while True:
            async with sessions() as session, session.begin():
                resealed = await reseal(session, keys, _RESEAL_ROWS)
            if not resealed.left:
                return []
    except (CannotOpen, ValueError) as error:
        return [f"A sealed value cannot be opened with the key of the backup: {error}"]
    except StorageUnavailable as error:
        return [f"{CONTROL}: {error}"]
    finally:
        await engine.dispose()


def _check_repositories(scratch: Path) -> list[str]:
    problems = []
    if shutil.which("git") is None:
        return []
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1"}
    for repository in sorted(scratch.glob("*.git")):
        checked = subprocess.run(
            ["git", f"--git-dir={repository}", "fsck", "--no-dangling", "--no-progress"],
            capture_output=True,
            env={**environment, "GIT_CONFIG_GLOBAL": os.devnull},
            cwd="/",
            timeout=_GIT_SECONDS,
        )
        if checked.returncode:
            problems.append(f"{repository.name}: {checked.stderr.decode('utf-8', 'replace').strip()}")
    return problems


def _check_releases(scratch: Path) -> list[str]:
    """Return the releases for rollbacks whose artefact is missing."""
    with closing(SqliteSnapshot(scratch / CONTROL)) as control:
        rows = control.rows(
            "SELECT deployment_id, artefact FROM releases WHERE removed_at IS NULL ORDER BY id"
        )
    return [
        f"What deployment {deployment} built is missing."
        for deployment, artefact in rows
        if artefact and not (scratch / "deployer" / "artefacts" / artefact).is_dir()
    ]


async def _check_store(path: Path, expected: dict[str, Any]) -> list[str]:
    """Open the column store and compare its parts and their rows with the manifest; have the engine check its own
    checksums of each table."""
    parts = {name: list_parts(path / folder) for name, folder in find_tables(path).items()}
    found = {name: {"parts": len(of), "rows": sum(of.values())} for name, of in parts.items()}
    problems = _differences("Column store", expected, found)
    try:
        store = await open_chdb(path)
    except StorageUnavailable as error:
        return [*problems, str(error)]
    try:
        for name in sorted(expected):
            problems += await _check_table(store, name, parts.get(name, {}))
        await apply_schema(store)
    except StorageUnavailable as error:
        problems.append(f"Column store: {error}")
    finally:
        await store.close()
    return problems


async def _check_table(store: ChdbColumnStore, name: str, parts: dict[str, int]) -> list[str]:
    """Compare a table's parts by name: merged parts stay listed for minutes, so the restored ones are still found."""
    loaded = await store.query(
        "SELECT name, rows FROM system.parts WHERE database = 'pharos' AND table = {table:String}",
        {"table": name},
    )
    rows = {row[0]: row[1] for row in loaded.rows}
    missing = [part for part, count in parts.items() if rows.get(part) != count]
    if missing:
        return [f"Column store: {name} did not load {len(missing)} of {len(parts)} parts."]
    checked = await store.query(f"CHECK TABLE pharos.`{name}` SETTINGS check_query_single_value_result = 1")
    if checked.rows and not checked.rows[0][0]:
        return [f"Column store: the engine finds {name} damaged."]
    return []
