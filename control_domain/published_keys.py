"""Publishes keys and sites to the key directory, from which the edges read them."""

from collections.abc import Sequence
from datetime import datetime

from control_domain.database.engine import Sessions
from control_domain.monitors.operations import live_monitor_keys
from control_domain.projects.operations import live_ingest_keys
from control_domain.sites.operations import live_sites
from storage_backends.key_directory.interface import KeyDirectory, KeyEntry, ReadEntries


async def publish_keys(sessions: Sessions, directory: KeyDirectory, now: datetime) -> int:
    """Publish every live key and every site, and return their number. Called at each start: the directory may be lost.

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
    """Publish the live keys and the sites of an account again, after a change of the account.

    Raises `StorageUnavailable` and what the database raises.
    """
    await _publish_until_current(directory, lambda: _read_entries(sessions, now, account_id))


async def republish_site(sessions: Sessions, directory: KeyDirectory, site_id: int) -> None:
    """Publish a site again, after its domains were changed.

    Two changes may be published in the other order than they were committed, so the last one to publish has to read
    what is current. Raises `StorageUnavailable` and what the database raises.
    """

    async def read() -> Sequence[KeyEntry]:
        async with sessions() as session:
            return await live_sites(session, site_id)

    await _publish_until_current(directory, read)


async def _publish_until_current(directory: KeyDirectory, read: ReadEntries) -> None:
    """Publish what `read` returns, until it returns what was published."""
    published: dict[bytes, KeyEntry] = {}
    while True:
        entries = {entry.digest: entry for entry in await read()}
        # A key that was revoked after the read may have been published again, so read once more after each pass.
        revoked = published.keys() - entries.keys()
        changed = [entry for entry in entries.values() if published.get(entry.digest) != entry]
        if not revoked and not changed:
            return
        for entry in changed:
            await directory.publish(entry)
        for digest in revoked:
            await directory.revoke(digest)
        published = entries
