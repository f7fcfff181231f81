"""Makes scheduled backups while the platform runs, deletes old ones, and tests a restore once a week."""

import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from control_domain.database.run_periodically import run_periodically
from control_domain.storage.backups import LAST_ATTEMPT, BackupDocument, list_backups, read_document
from pipeline_contracts.settings import Settings
from storage_backends.end_task import end_task
from wiring.embedded.backups.create import create_backup, make_request, prune_scheduled
from wiring.embedded.backups.errors import BackupFailed
from wiring.embedded.backups.snapshot import Engines, remove_frozen

logger = logging.getLogger(__name__)

_POLL_SECONDS = 60.0
_RETRY = timedelta(hours=1)
_TEST_EVERY = timedelta(days=7)


@asynccontextmanager
async def running_schedule(engines: Engines, settings: Settings) -> AsyncIterator[None]:
    """Make scheduled backups until the context ends. A backup in progress is then cancelled."""
    await asyncio.to_thread(remove_frozen, engines.data)
    if not settings.backup_hours:
        yield
        return

    async def run() -> None:
        await make_due_backup(engines, settings, datetime.now(UTC))

    periodically = run_periodically(
        run,
        asyncio.Event(),
        every=_POLL_SECONDS,
        logger=logger,
        outage="the scheduled backup was not made",
        fault="the scheduled backup failed",
        transient=(BackupFailed,),
    )
    task = asyncio.create_task(periodically, name="backups")
    try:
        yield
    finally:
        await end_task(task)


async def make_due_backup(engines: Engines, settings: Settings, now: datetime) -> str | None:
    """Make a backup if one is due, and return its name. A failed backup is retried after an hour, or sooner if backups
    are more frequent. Raises `BackupFailed`."""
    request = make_request(settings, engines.data, "schedule")
    backups = await asyncio.to_thread(list_backups, request.folder)
    if not is_due(backups, read_document(engines.data / LAST_ATTEMPT), settings.backup_hours, now):
        return None
    manifest = await create_backup(engines, request)
    logger.info("backup %s: %d bytes in %.1f s", manifest["path"], manifest["bytes"], manifest["seconds"])
    for name in await asyncio.to_thread(prune_scheduled, request.folder, settings.backup_keep):
        logger.info("backup %s was deleted: %d are kept", name, settings.backup_keep)
    if is_test_due(backups, now):
        await test_in_own_process(Path(manifest["path"]))
    return str(manifest["name"])


def is_due(
    backups: list[BackupDocument], attempt: dict[str, object] | None, every_hours: float, now: datetime
) -> bool:
    """Return True if a scheduled backup is due. `attempt` is the last attempt, scheduled or by a command."""
    every = timedelta(hours=every_hours)
    scheduled = [backup["created_at"] for backup in backups if backup["source"] == "schedule"]
    if scheduled and now - datetime.fromisoformat(scheduled[0]) < every:
        return False
    if attempt is None or attempt.get("error") is None or attempt.get("source") != "schedule":
        return True
    return now - datetime.fromisoformat(str(attempt["at"])) >= min(every, _RETRY)


def is_test_due(backups: list[BackupDocument], now: datetime) -> bool:
    """Return True if no restore was tested in the last week."""
    tests = [backup["restore_test"]["at"] for backup in backups if backup["restore_test"] is not None]
    return not tests or now - datetime.fromisoformat(max(tests)) >= _TEST_EVERY


async def test_in_own_process(backup: Path) -> None:
    """Run the restore test of a backup. Its result is stored in the backup; a failure is logged too."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "operator_cli.main",
        "backup",
        "verify",
        str(backup),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        raise
    log = logger.error if process.returncode else logger.info
    log("restore test of backup %s: %s", backup.name, output.decode("utf-8", "replace").strip())
