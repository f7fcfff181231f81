"""The data that the installation stores, its retention, and its backups: `/v1/storage`."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from analytics_queries.alerts.disk_space import disk_space
from analytics_queries.storage.stored_partitions import stored_partitions
from control_api.operations.access import At, at_account
from control_api.operations.bodies import json_body
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import AccountRight
from control_domain.storage.backups import BackupsDocument, describe_backups
from control_domain.storage.database_size import measure_database, measure_event_log
from control_domain.storage.disk_reserve import make_space_on_full_disk
from control_domain.storage.report import DataKind, StorageDocument, describe_storage
from control_domain.storage.retention import (
    MAX_DAYS,
    read_settings,
    require_installation,
    save_retention,
)
from control_domain.tables.accounts import Account
from pipeline_contracts.errors import StorageUnavailable, Unavailable
from storage_backends.column_store.change_retention import read_retention, shorten_retention

logger = logging.getLogger(__name__)

operations = OperationRouter("Account")

_Read = Annotated[At[Account], at_account("account:read", AccountRight.MANAGE)]
_Manage = Annotated[At[Account], at_account("account:write", AccountRight.MANAGE)]


@dataclass(frozen=True, slots=True)
class BackupSettings:
    """The folder and the interval of the embedded platform's backups."""

    folder: Path | None = None
    every_hours: float = 0.0
    keep: int = 0


@dataclass(frozen=True, slots=True)
class StorageAccess:
    """The engines that the operations use. `data_folder` belongs to the embedded platform, `cluster` to the column
    store's servers. `wake` makes the worker apply a retention at once."""

    data_folder: Path | None = None
    cluster: str | None = None
    wake: Callable[[], None] = lambda: None
    backups: BackupSettings = BackupSettings()


class SetRetention(Struct, kw_only=True):
    """How long a kind of data is kept."""

    kind: Annotated[DataKind, Meta(description="The kind of data.")]
    days: Annotated[int, Meta(ge=1, le=MAX_DAYS, description="The age in days at which data is deleted.")]


@operations.get("/v1/storage")
async def read_storage(at: _Read) -> StorageDocument:
    """Read how much the installation stores.

    The size, growth and retention of each kind of data of all accounts, the sizes of the databases, and the time until
    the disk is full. Only for owners and admins of the first account of the installation. If the column store has
    several servers, the figures are those of the server that answers. 503 if the column store does not answer.
    """
    await require_installation(at.session, at.account)
    return await _read_storage(at)


@operations.get("/v1/storage/backups")
async def read_backups(at: _Read) -> BackupsDocument:
    """Read the backups of the installation.

    The last attempt to make a backup, the backups in the configured folder with their sizes and restore tests, and the
    schedule. Only for owners and admins of the first account of the installation. Backups are made and restored by an
    operator of the machine, on its command line.
    """
    await require_installation(at.session, at.account)
    access = _access(at)
    backups = access.backups
    return await asyncio.to_thread(
        describe_backups, access.data_folder, backups.folder, backups.every_hours, backups.keep
    )


@operations.put("/v1/storage/retention")
async def set_data_retention(
    at: _Manage, body: Annotated[SetRetention, json_body(SetRetention)]
) -> StorageDocument:
    """Change how long a kind of data is kept.

    Only for owners and admins of the first account of the installation. The change affects the data of all accounts. A
    shorter time deletes older data at once, which cannot be undone and also works on a full disk. The new time is in
    force within a minute.
    """
    await require_installation(at.session, at.account)
    try:
        kept = (await read_retention(at.column_store)).get(body.kind)
    except StorageUnavailable as error:
        raise Unavailable("The column store does not answer now; nothing was changed.") from error
    access = _access(at)
    await asyncio.to_thread(make_space_on_full_disk, access.data_folder)
    # Record the change first, with the rights locked, because deleted data cannot be restored.
    await at.lock_rights()
    before = _retention_of(kept, (await read_settings(at.session)).get(body.kind))
    await save_retention(at.session, at.account, body.kind, body.days, before, at.actor, at.now)
    await at.end_transaction()
    if kept is None or body.days < kept:
        await _shorten(at, body)
    access.wake()
    return await _read_storage(at)


async def _shorten(at: At[Account], wanted: SetRetention) -> None:
    """Delete older data. Only a request does this: the worker never applies a shorter setting."""
    try:
        await shorten_retention(at.column_store, wanted.kind, wanted.days, at.now.date(), _access(at).cluster)
    except StorageUnavailable as error:
        logger.warning("the retention of %s was shortened only in part: %s", wanted.kind, error)
        raise Unavailable(
            "The column store does not answer now. The new time is saved, and some older data may be "
            "deleted already. Set it again to delete the rest."
        ) from error


def _access(at: At[Account]) -> StorageAccess:
    access: StorageAccess = at.request.app.state.storage_access
    return access


async def _read_retention(at: At[Account]) -> Mapping[str, int]:
    """Return the retention of each kind in days. A longer setting counts even before the worker has applied it."""
    settings = await read_settings(at.session)
    kept = await read_retention(at.column_store)
    found = {kind: _retention_of(kept.get(kind), settings.get(kind)) for kind in {**kept, **settings}}
    return {kind: days for kind, days in found.items() if days is not None}


def _retention_of(kept: int | None, setting: int | None) -> int | None:
    """Return the longer of the two, because only the request that sets a shorter time applies it."""
    return max(kept or 0, setting or 0) or None


async def _read_storage(at: At[Account]) -> StorageDocument:
    database = await measure_database(at.session)
    event_log = await asyncio.to_thread(measure_event_log, _access(at).data_folder)
    try:
        partitions = await stored_partitions(at.column_store)
        retention = await _read_retention(at)
        disks = await disk_space(at.column_store)
    except StorageUnavailable as error:
        raise Unavailable("The column store does not answer now.") from error
    return describe_storage(partitions, retention, disks, database, event_log, at.now)
