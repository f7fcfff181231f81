"""Makes a backup of a data folder on which nothing runs."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from pipeline_contracts.settings import Settings
from storage_backends.column_store.chdb_embedded import open_chdb
from storage_backends.event_log.sqlite import open_sqlite_log
from wiring.embedded.backups.create import Request, create_backup
from wiring.embedded.backups.snapshot import LOG, STORE, Engines
from wiring.embedded.data_folder import explain_file_errors, lock_data_folder
from wiring.embedded.log_metrics import log_bounds


async def create_offline(data: Path, settings: Settings, request: Request) -> dict[str, Any]:
    """Make a backup and return its manifest. Raises `BackupFailed`, `DataFolderInUse`, `DataFolderUnusable` and
    `StorageUnavailable`."""
    async with AsyncExitStack() as stack:
        stack.enter_context(lock_data_folder(data))
        with explain_file_errors(data / LOG):
            log = await open_sqlite_log(data / LOG, log_bounds(settings))
        stack.push_async_callback(log.close)
        with explain_file_errors(data / STORE):
            store = await open_chdb(data / STORE)
        stack.push_async_callback(store.close)
        return await create_backup(Engines(data, log, store), request)
