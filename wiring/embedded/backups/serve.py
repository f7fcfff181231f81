"""Makes a backup for `pharos backup create`, over the operator socket: JSON lines with progress, then the result."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from pipeline_contracts.settings import Settings
from wiring.embedded.backups.create import create_backup, make_request
from wiring.embedded.backups.errors import BackupFailed
from wiring.embedded.backups.snapshot import Engines

_PROGRESS_SECONDS = 0.25


class BackupCall(msgspec.Struct, kw_only=True):
    """The request of the command."""

    folder: str | None = None
    """An absolute path; None for the folder of the settings."""
    with_keys: bool = True


async def serve_backup(engines: Engines, settings: Settings, request: web.Request) -> web.StreamResponse:
    """Make a backup and report its progress line by line. If the caller disconnects, the backup is cancelled."""
    call = msgspec.json.decode(await request.read(), type=BackupCall)
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
    await response.prepare(request)
    progress: dict[str, Any] = {"step": "Snapshot", "done": 0, "total": 0}

    def note(step: str, done: int, total: int) -> None:
        progress.update(step=step, done=done, total=total)

    made = make_request(
        settings,
        engines.data,
        "command",
        None if call.folder is None else Path(call.folder),
        with_keys=call.with_keys,
        on_progress=note,
    )
    creating = asyncio.create_task(create_backup(engines, made))
    try:
        while not (await asyncio.wait({creating}, timeout=_PROGRESS_SECONDS))[0]:
            await response.write(msgspec.json.encode({"progress": progress}) + b"\n")
        try:
            line: dict[str, Any] = {"data": creating.result()}
        except BackupFailed as error:
            line = {"error": str(error)}
        await response.write(msgspec.json.encode(line) + b"\n")
    except ConnectionError:
        pass
    finally:
        creating.cancel()
        with contextlib.suppress(asyncio.CancelledError, BackupFailed):
            await creating
    return response
