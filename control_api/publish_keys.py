"""Tells the key directory all that the edges need to know."""

import asyncio
import logging
from datetime import UTC, datetime

from sqlalchemy.exc import SQLAlchemyError

from control_api.database import Sessions
from control_api.keep_doing import Seldom, keep_doing
from control_api.monitors.operations import live_monitor_keys
from control_api.projects.operations import live_ingest_keys
from control_api.sites.operations import live_sites
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.key_directory.interface import KeyDirectory, KeyEntry

logger = logging.getLogger(__name__)


async def publish_keys(sessions: Sessions, directory: KeyDirectory, now: datetime) -> int:
    """Publish every live key and every site; gives their number. Done at each start, so that a directory may be lost.

    Raises `StorageUnavailable` and what the database raises.
    """
    return await directory.publish_all(lambda: _read_entries(sessions, now))


async def _read_entries(sessions: Sessions, now: datetime, account_id: int | None = None) -> list[KeyEntry]:
    async with sessions() as session:
        return [
            *await live_ingest_keys(session, now, account_id=account_id),
            *await live_monitor_keys(session, now, account_id=account_id),
            *await live_sites(session, account_id=account_id),
        ]


async def republish_account(
    sessions: Sessions, directory: KeyDirectory, account_id: int, now: datetime
) -> None:
    """Publish an account's live keys and its sites again, with what has changed in the account.

    Raises `StorageUnavailable` and what the database raises.
    """
    published: dict[bytes, KeyEntry] = {}
    while True:
        entries = {entry.digest: entry for entry in await _read_entries(sessions, now, account_id)}
        # What was revoked since it was read may have been brought back: looked at again behind each round.
        gone = published.keys() - entries.keys()
        changed = [entry for entry in entries.values() if published.get(entry.digest) != entry]
        if not gone and not changed:
            return
        for entry in changed:
            await directory.publish(entry)
        for digest in gone:
            await directory.revoke(digest)
        published = entries


async def keep_published(
    sessions: Sessions,
    directory: KeyDirectory,
    stop: asyncio.Event,
    *,
    every: float = 1.0,
    repeat_seconds: float = 60.0,
) -> None:
    """Publish all keys now, whenever the directory has lost them or was away, and each `repeat_seconds`, until `stop`.

    Asks the directory every `every` seconds. The repetition is for changes that another process could not publish
    while the directory answered this one. Either engine may be away meanwhile: that is logged once an outage.
    """
    repeat = Seldom(repeat_seconds)

    async def publish() -> None:
        if repeat.is_due() or not await directory.is_complete():
            count = await publish_keys(sessions, directory, datetime.now(UTC))
            repeat.done()
            logger.debug("published %d keys", count)

    await keep_doing(
        publish,
        stop,
        every=every,
        logger=logger,
        outage="keys cannot be published now",
        fault="keys could not be published",
        passing=(StorageUnavailable, SQLAlchemyError),
    )
