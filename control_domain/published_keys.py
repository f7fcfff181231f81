"""Tells the key directory all that the edges need to know."""

from datetime import datetime

from control_domain.database.engine import Sessions
from control_domain.monitors.operations import live_monitor_keys
from control_domain.projects.operations import live_ingest_keys
from control_domain.sites.operations import live_sites
from storage_backends.key_directory.interface import KeyDirectory, KeyEntry


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
