"""Publishes keys and sites to the key directory, from which the edges read them."""

from collections.abc import Collection, Sequence, Set
from datetime import datetime

from msgspec import Struct, field
from sqlalchemy import func, select

from control_domain.database.engine import Sessions
from control_domain.monitors.environment_ping_keys import find_full_accounts, live_environment_ping_keys
from control_domain.monitors.names import live_heartbeat_names
from control_domain.monitors.operations import live_monitor_keys
from control_domain.projects.operations import live_ingest_keys
from control_domain.sites.operations import live_sites
from control_domain.tables.projects import IngestKey
from pipeline_contracts.heartbeat_names import digest_heartbeat_name
from storage_backends.key_directory.interface import KeyDirectory, KeyEntry, ReadEntries

_LATE_IDS = 500
"""A key is published at once if fewer keys than this are created while its transaction is open; otherwise it is
published with all others."""


class ChangedKeys(Struct):
    """The keys and sites that a transaction has changed. The edges must receive them after its commit."""

    keys: list[bytes] = field(default_factory=list)
    """Digests of keys and tracker IDs that were created or changed."""
    sites: list[int] = field(default_factory=list)
    """IDs of the sites among them."""
    revoked: list[bytes] = field(default_factory=list)
    """Digests of keys and tracker IDs that were revoked or removed. They never become valid again."""
    names: list[tuple[str, str]] = field(default_factory=list)
    """Names that a heartbeat got or lost, each with the public ID of the environment."""

    def __bool__(self) -> bool:
        return bool(self.keys or self.sites or self.revoked or self.names)

    def add(self, other: "ChangedKeys") -> None:
        """Add the keys of `other`."""
        self.keys += other.keys
        self.sites += other.sites
        self.revoked += other.revoked
        self.names += other.names


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
                entries += await live_environment_ping_keys(session, now, changed.keys)
            for site in changed.sites:
                entries += await live_sites(session, site)
            if changed.names:
                entries += await live_heartbeat_names(session, changed.names)
                # Whether a ping may create a heartbeat there depends on how many there are.
                environments = {environment for environment, _ in changed.names}
                entries += await live_environment_ping_keys(session, now, environments=environments)
            return entries

    if changed.keys or changed.sites or changed.names:
        names = [digest_heartbeat_name(*name) for name in changed.names]
        await _publish_until_current(directory, read, [*changed.keys, *names])


async def publish_keys(sessions: Sessions, directory: KeyDirectory, now: datetime) -> int:
    """Publish every live key, every site and every heartbeat's name, and return their number. Called at each start,
    because the directory may have been lost.

    Raises `StorageUnavailable` and the errors of the database.
    """
    return await directory.publish_all(lambda: _read_entries(sessions, now))


async def publish_new_keys(
    sessions: Sessions, directory: KeyDirectory, known: Set[int] | None, now: datetime
) -> Set[int]:
    """Publish the newest ingest keys that are not `known`, and return the IDs of the newest keys. With `known` None,
    publish none.

    A deployer creates keys but has no key directory. Raises `StorageUnavailable` and what the database raises.
    """
    # Account scope: the edges need the keys of every account.
    async with sessions() as session:
        if known is None:
            highest = (await session.execute(select(func.max(IngestKey.id)))).scalar_one() or 0
        else:
            highest = max(known, default=0)
        # A transaction may commit after one that took a higher ID.
        query = select(IngestKey.id, IngestKey.digest).where(IngestKey.id > highest - _LATE_IDS)
        rows = (await session.execute(query)).all()
    new = [] if known is None else [digest for id_, digest in rows if id_ not in known]
    if new:
        await publish_changes(sessions, directory, ChangedKeys(keys=new), now)
    found = {id_ for id_, _ in rows}
    highest = max(found, default=0)
    return {id_ for id_ in found if id_ > highest - _LATE_IDS}


async def _read_entries(sessions: Sessions, now: datetime, account_id: int | None = None) -> list[KeyEntry]:
    async with sessions() as session:
        return [
            *await live_ingest_keys(session, now, account_id=account_id),
            *await live_monitor_keys(session, now, account_id=account_id),
            *await live_environment_ping_keys(session, now, account_id=account_id),
            *await live_sites(session, account_id=account_id),
            *await live_heartbeat_names(session, account_id=account_id),
        ]


async def republish_account(
    sessions: Sessions, directory: KeyDirectory, account_id: int, now: datetime
) -> None:
    """Publish the live keys and the sites of an account again, after a change of the account.

    Raises `StorageUnavailable` and the errors of the database.
    """
    await _publish_until_current(directory, lambda: _read_entries(sessions, now, account_id))


async def republish_full_accounts(
    sessions: Sessions, directory: KeyDirectory, known: Set[int], now: datetime
) -> Set[int]:
    """Publish the ping keys of environments again for each account whose number of heartbeats has reached or left the
    limit. `known`: the accounts that were at the limit; return those that are now.

    Their entries say whether pings may create heartbeats. `publish_changes` updates only the environment of a change,
    and not the others of the account. Raises `StorageUnavailable` and the errors of the database.
    """
    async with sessions() as session:
        full = await find_full_accounts(session)
    for account_id in sorted(full ^ known):

        async def read(account_id: int = account_id) -> Sequence[KeyEntry]:
            async with sessions() as session:
                return await live_environment_ping_keys(session, now, account_id=account_id)

        await _publish_until_current(directory, read)
    return full


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
