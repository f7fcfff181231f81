"""Ingest keys as an operator handles them: made, listed, revoked, and told to the edges at once."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select

from control_domain.database.engine import Sessions
from control_domain.keys import revoke_key, warn_if_unpublished
from control_domain.projects.operations import create_ingest_key, live_ingest_keys
from control_domain.projects.resolve import resolve_environment
from control_domain.refusals import Refused
from control_domain.tables.projects import Environment, IngestKey
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.times import format_time
from storage_backends.key_directory.interface import KeyDirectory


async def list_keys(sessions: Sessions) -> Sequence[dict[str, Any]]:
    """Every ingest key, newest first: id, environment_id, created_at, expires_at, revoked_at; never the secret."""
    async with sessions() as session:
        rows = await session.execute(
            select(IngestKey, Environment.public_id)
            .join(Environment, Environment.id == IngestKey.environment_id)
            .order_by(IngestKey.id.desc())
        )
        return [
            {
                "id": key.id,
                "environment_id": environment,
                "created_at": format_time(key.created_at),
                "expires_at": None if key.expires_at is None else format_time(key.expires_at),
                "revoked_at": None if key.revoked_at is None else format_time(key.revoked_at),
            }
            for key, environment in rows
        ]


async def create_key(
    sessions: Sessions, directory: KeyDirectory, environment_id: str | None, now: datetime
) -> dict[str, Any]:
    """A new ingest key: id, environment_id and its secret, which is told here and never again.

    It works at every edge from now on. `environment_id` may be left out where there is one environment only. Raises
    `Refused`. When the edges cannot be told the key is made all the same, and `warning` says so.
    """
    async with sessions() as session, session.begin():
        environment = await resolve_environment(session, environment_id)
        secret = await create_ingest_key(session, environment, now)
        digest = digest_credential(secret)
        (key,) = (await session.execute(select(IngestKey.id).where(IngestKey.digest == digest))).one()
        (entry,) = await live_ingest_keys(session, now, key)
        told = {"id": key, "environment_id": environment.public_id, "ingest_key": secret}
    with warn_if_unpublished(told):
        await directory.publish(entry)
    return told


async def revoke_ingest_key(
    sessions: Sessions, directory: KeyDirectory, key_id: int, now: datetime
) -> dict[str, Any]:
    """Revoke a key: no edge takes it any more within 5 s. Doing it again changes nothing.

    Raises `Refused` for an ID that is none.
    """
    async with sessions() as session, session.begin():
        digest = await revoke_key(session, IngestKey, key_id, now)
        if digest is None:
            raise Refused(f"There is no key {key_id}; `pharos keys list` shows all.")
    told: dict[str, Any] = {"id": key_id, "revoked": True}
    with warn_if_unpublished(told):
        await directory.revoke(digest)
    return told
