"""Publishes keys and sites to the key directory, from which the edges read them."""

from collections.abc import Collection, Sequence
from datetime import datetime

from msgspec import Struct, field

from control_domain.database.engine import Sessions
from control_domain.monitors.operations import live_monitor_keys
from control_domain.projects.operations import live_ingest_keys
from control_domain.sites.operations import live_sites
from storage_backends.key_directory.interface import KeyDirectory, KeyEntry, ReadEntries


class ChangedKeys(Struct):
    """The keys and sites that a transaction has changed. The edges must receive them after its commit."""

    keys: list[bytes] = field(default_factory=list)
    """Digests of keys and tracker IDs that were created or changed."""
    sites: list[int] = field(default_factory=list)
    """IDs of the sites among them."""
    revoked: list[bytes] = field(default_factory=list)
    """Digests of keys and tracker IDs that were revoked or removed. They never become valid again."""

    def __bool__(self) -> bool:
        return bool(self.keys or self.sites or self.revoked)

    def add(self, other: "ChangedKeys") -> None:
        """Add the keys of `other`."""
        self.keys += other.keys
        self.sites += other.sites
        self.revoked += other.revoked


async def publish_changes(
    sessions: Sessions, directory: KeyDirectory, changed: ChangedKeys, now: datetime
) -> None:
    """Update the entries of these keys in the key directory to the present state in the database.

    The last committed state wins, even if other changes of the same keys are published at the same time. Raises
    `StorageUnavailable` and the errors of the database.
    """
    # Revoke first, without the database, which may be unreachable now.
    for digest in changed.revoked:
        await directory.revoke(digest)

    async def read() -> Sequence[KeyEntry]:
        async with sessions() as session:
            entries: list[KeyEntry] = []
            if changed.keys:
                entries += await live_ingest_keys(session, now, changed.keys)
                entries += await live_monitor_keys(session, now, changed.keys)
            for site in changed.sites:
                entries += await live_sites(session, site)
            return entries

    if changed.keys or changed.sites:
        await _publish_until_current(directory, read, changed.keys)


async def publish_keys(sessions: Sessions, directory: KeyDirectory, now: datetime) -> int:
    """Publish every live key and every site, and return their number. Called at each start, because the directory may
    have been lost.

    Raises `StorageUnavailable` and the errors of the database.
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

    Raises `StorageUnavailable` and the errors of the database.
    """
    await _publish_until_current(directory, lambda: _read_entries(sessions, now, account_id))


async def _publish_until_current(
    directory: KeyDirectory, read: ReadEntries, digests: Collection[bytes] = ()
) -> None:
    """Publish the entries that `read` returns, and revoke the `digests` that it does not return, until nothing
    changes.

    Two changes may be published in a different order than they were committed, so the last publication has to read the
    current state.
    """
    published: dict[bytes, KeyEntry | None] = {}
    while True:
        # A key that was revoked after the read may have been published again, so read once more after each pass.
        entries: dict[bytes, KeyEntry | None] = dict.fromkeys([*published, *digests])
        entries.update((entry.digest, entry) for entry in await read())
        changed = {
            digest: entry
            for digest, entry in entries.items()
            if digest not in published or published[digest] != entry
        }
        if not changed:
            return
        for digest, entry in changed.items():
            if entry is None:
                await directory.revoke(digest)
            else:
                await directory.publish(entry)
        published = entries
