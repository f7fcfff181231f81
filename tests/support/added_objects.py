"""Adds ingest keys, monitors and sites to a test's database as the API does, without audit entries."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.engine import Sessions
from control_domain.monitors.operations import (
    HeartbeatSettings,
    create_heartbeat,
    create_monitor_key,
    create_queue,
    live_monitor_keys,
    ping_key_owner,
)
from control_domain.projects.operations import create_ingest_key, live_ingest_keys
from control_domain.sealing import SealingKeys
from control_domain.sites.operations import create_site, live_sites
from control_domain.tables.monitors import MonitorKey
from control_domain.tables.projects import Environment, IngestKey, Project
from control_domain.tables.sites import Site
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential
from pipeline_contracts.schedules import Schedule
from storage_backends.key_directory.interface import KeyDirectory, KeyEntry


class AddedKey(NamedTuple):
    id: int
    secret: str


class AddedMonitor(NamedTuple):
    """A heartbeat or a queue with its keys; a queue has no ping key."""

    id: int
    key: AddedKey
    ping_key: AddedKey | None = None

    @property
    def secrets(self) -> list[str]:
        return [key.secret for key in (self.key, self.ping_key) if key is not None]


@dataclass(frozen=True, slots=True)
class ObjectAdder:
    """Adds objects to a database and publishes their keys. An environment or project is named by its slug or public ID;
    None means the only one. Without `sealing_keys` heartbeats have no ping key.
    """

    sessions: Sessions
    directory: KeyDirectory
    sealing_keys: SealingKeys | None = None

    async def add_ingest_key(self, environment: str | None = None) -> AddedKey:
        now = datetime.now(UTC)
        async with self.sessions() as session, session.begin():
            secret = await create_ingest_key(session, await _find_environment(session, environment), now)
            digest = digest_credential(secret)
            number = (
                await session.execute(select(IngestKey.id).where(IngestKey.digest == digest))
            ).scalar_one()
            entries = await live_ingest_keys(session, now, [digest])
        await self._publish(entries)
        return AddedKey(number, secret)

    async def revoke_ingest_key(self, key_id: int) -> None:
        async with self.sessions() as session, session.begin():
            key = await session.get_one(IngestKey, key_id)
            key.revoked_at = datetime.now(UTC)
        await self.directory.revoke(key.digest)

    async def add_heartbeat(
        self, name: str = "backup", environment: str | None = None, period_seconds: int = 3600
    ) -> AddedMonitor:
        now = datetime.now(UTC)
        settings = HeartbeatSettings(name, Schedule(period_seconds))
        async with self.sessions() as session, session.begin():
            place = await _find_environment(session, environment)
            heartbeat = await create_heartbeat(session, place, settings, now)
        key = await self.add_monitor_key("heartbeat", heartbeat.id)
        ping_key = None if self.sealing_keys is None else await self.add_ping_key(heartbeat.id)
        return AddedMonitor(heartbeat.id, key, ping_key)

    async def add_queue(self, name: str = "mail", environment: str | None = None) -> AddedMonitor:
        async with self.sessions() as session, session.begin():
            place = await _find_environment(session, environment)
            queue = await create_queue(session, place, name, datetime.now(UTC))
        return AddedMonitor(queue.id, await self.add_monitor_key("queue", queue.id))

    async def add_monitor_key(self, kind: Literal["heartbeat", "queue"], number: int) -> AddedKey:
        now = datetime.now(UTC)
        owner = {f"{kind}_id": number}
        async with self.sessions() as session, session.begin():
            key = AddedKey(*await create_monitor_key(session, now, **owner))
            entries = await live_monitor_keys(session, now, [digest_credential(key.secret)])
        await self._publish(entries)
        return key

    async def add_ping_key(self, heartbeat_id: int) -> AddedKey:
        assert self.sealing_keys is not None
        now, secret = datetime.now(UTC), make_credential(CredentialKind.PING_KEY)
        sealed = self.sealing_keys.seal({"key": secret}, ping_key_owner(heartbeat_id))
        key = MonitorKey(
            heartbeat_id=heartbeat_id,
            digest=digest_credential(secret),
            created_at=now,
            sealing_key_id=sealed.key_id,
            sealed=sealed.data,
        )
        async with self.sessions() as session, session.begin():
            session.add(key)
            await session.flush()
            entries = await live_monitor_keys(session, now, [key.digest])
        await self._publish(entries)
        return AddedKey(key.id, secret)

    async def revoke_monitor_key(self, key_id: int) -> None:
        async with self.sessions() as session, session.begin():
            key = await session.get_one(MonitorKey, key_id)
            key.revoked_at = datetime.now(UTC)
        await self.directory.revoke(key.digest)

    async def add_site(self, name: str, *domains: str, project: str | None = None) -> Site:
        async with self.sessions() as session, session.begin():
            query = select(Project.id)
            if project is not None:
                query = query.where(or_(Project.slug == project, Project.public_id == project))
            project_id = (await session.execute(query)).scalar_one()
            site = await create_site(session, project_id, name, "UTC", domains, datetime.now(UTC))
            entries = await live_sites(session, site.id)
        await self._publish(entries)
        return site

    async def _publish(self, entries: Sequence[KeyEntry]) -> None:
        for entry in entries:
            await self.directory.publish(entry)


async def _find_environment(session: AsyncSession, name: str | None) -> Environment:
    query = select(Environment)
    if name is not None:
        query = query.where(or_(Environment.slug == name, Environment.public_id == name))
    return (await session.execute(query)).scalar_one()
