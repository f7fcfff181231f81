"""Heartbeats that pings have created are published, and are in the audit log, once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from sqlalchemy import select

from control_domain.audit import Actor
from control_domain.database.engine import open_sessions
from control_domain.monitors import environment_ping_keys
from control_domain.projects.find import DeployTarget
from control_domain.tables.audit import AuditEntry
from control_domain.tables.monitors import CreatedHeartbeat
from control_domain.tables.projects import Environment, Project
from control_workers.created_heartbeats import (
    publish_created_heartbeats,
    publish_created_heartbeats_periodically,
)
from ingest_edge.heartbeat_names import find_heartbeat_by_name
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.key_directory.interface import KeyEntry
from storage_backends.monitor_states.interface import NamedHeartbeat
from tests.support.monitored import T0, Monitored

NOW = datetime.now(UTC)


class _Directory(InProcessKeyDirectory):
    is_away = False

    async def publish(self, entry: KeyEntry) -> None:
        if self.is_away:
            raise StorageUnavailable("Redis is away.")
        await super().publish(entry)


async def create(monitored: Monitored, *names: str) -> list[int]:
    requested = [NamedHeartbeat(monitored.environment_id, name, T0, f"ping of {name}") for name in names]
    found = await monitored.states.find_or_create(requested)
    return [found[monitored.environment_id, name] for name in names]


async def audited(monitored: Monitored) -> list[tuple[str, str, str]]:
    async with open_sessions(monitored.engine)() as session:
        rows = (await session.execute(select(AuditEntry).order_by(AuditEntry.id))).scalars()
        return [(row.action, row.subject, row.source) for row in rows]


@pytest.mark.both_databases
async def test_created_heartbeats_are_published_once(monitored: Monitored) -> None:
    sessions, directory = open_sessions(monitored.engine), _Directory()
    first, second = await create(monitored, "one", "two")
    directory.is_away = True
    with pytest.raises(StorageUnavailable):
        await publish_created_heartbeats(sessions, directory, NOW)
    assert await audited(monitored) == []
    directory.is_away = False
    # Several control planes.
    counts = await asyncio.gather(*(publish_created_heartbeats(sessions, directory, NOW) for _ in range(3)))
    assert max(counts) == 2
    found = [
        await find_heartbeat_by_name(directory, monitored.environment_id, name) for name in ("one", "two")
    ]
    assert found == [first, second]
    assert await audited(monitored) == [
        ("heartbeat.create", f"heartbeat {number}", "ping") for number in (first, second)
    ]
    assert await publish_created_heartbeats(sessions, directory, NOW) == 0
    async with sessions() as session:
        assert (await session.execute(select(CreatedHeartbeat))).all() == []


@contextlib.asynccontextmanager
async def _publishing(monitored: Monitored, directory: InProcessKeyDirectory) -> AsyncIterator[None]:
    stop = asyncio.Event()
    loop = publish_created_heartbeats_periodically(
        open_sessions(monitored.engine), directory, stop, every=0.01
    )
    task = asyncio.create_task(loop)
    yield
    stop.set()
    await task


@pytest.mark.both_databases
async def test_a_full_environment_creates_no_more(
    monitored: Monitored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The edges are informed with the heartbeat that reaches the limit, and again when the number is below it."""
    monkeypatch.setattr(environment_ping_keys, "MAX_CREATED_IN", 2)
    sessions, directory = open_sessions(monitored.engine), InProcessKeyDirectory()
    async with sessions() as session, session.begin():
        row = (await session.execute(select(Environment, Project).join(Project))).one()
        _, secret = await environment_ping_keys.PING_KEYS.add(
            session, DeployTarget(*row), None, Actor("test"), NOW
        )

    async def may_create() -> bool | None:
        entry = await directory.find(digest_credential(secret))
        return None if entry is None else entry.may_create

    async with _publishing(monitored, directory), asyncio.timeout(30):
        await create(monitored, "one")
        while await may_create() is None:
            await asyncio.sleep(0.01)
        assert await may_create() is True
        await create(monitored, "two")
        while await may_create():
            await asyncio.sleep(0.01)
