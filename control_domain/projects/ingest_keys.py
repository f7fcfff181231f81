"""Ingest keys of environments: lists, creates and revokes them for people, with audit entries."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, TypedDict

from msgspec import Meta
from sqlalchemy import func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.keys import KeyState, check_expiry, get_key_state
from control_domain.paging import Page
from control_domain.projects.find import DeployTarget
from control_domain.tables.projects import IngestKey
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential
from pipeline_contracts.errors import Conflict, NotFound
from pipeline_contracts.times import format_optional_time, format_time

MAX_LIVE_KEYS = 1000
"""Limit of one environment. Each control plane publishes all live keys when it starts."""


class IngestKeyDocument(TypedDict):
    """An ingest key of one environment, without its secret."""

    id: int
    environment_id: str
    name: Annotated[
        str | None,
        Meta(
            description="What the key is for, for a key that Pharos made; null for a key that a person created."
        ),
    ]
    state: KeyState
    created_at: str
    expires_at: str | None
    revoked_at: str | None


class CreatedIngestKey(IngestKeyDocument):
    """A new ingest key."""

    key: Annotated[str, Meta(description="The secret, which is not shown again.")]


def describe_ingest_key(key: IngestKey, environment_id: str, now: datetime) -> IngestKeyDocument:
    return {
        "id": key.id,
        "environment_id": environment_id,
        "name": key.name,
        "state": get_key_state(key, now),
        "created_at": format_time(key.created_at),
        "expires_at": format_optional_time(key.expires_at),
        "revoked_at": format_optional_time(key.revoked_at),
    }


async def list_ingest_keys(
    session: AsyncSession, target: DeployTarget, page: Page
) -> tuple[Sequence[IngestKey], bool]:
    """Return a page of the ingest keys of the environment, newest first, and whether more follow."""
    query = (
        select(IngestKey)
        .where(IngestKey.environment_id == target.environment.id)
        .order_by(IngestKey.id.desc())
        .limit(page.limit + 1)
    )
    if page.before is not None:
        query = query.where(IngestKey.id < page.before)
    rows = (await session.execute(query)).scalars().all()
    return rows[: page.limit], len(rows) > page.limit


async def add_ingest_key(
    session: AsyncSession, target: DeployTarget, expires_at: datetime | None, actor: Actor, now: datetime
) -> tuple[IngestKey, str]:
    """Create an ingest key, and return it with its secret, which is not stored. The others keep working.

    Raises `InvalidInput`, and `Conflict` if the environment has too many live keys.
    """
    check_expiry(expires_at, now)
    live = select(func.count()).where(
        IngestKey.environment_id == target.environment.id,
        IngestKey.revoked_at.is_(None),
        or_(IngestKey.expires_at.is_(None), IngestKey.expires_at > now),
    )
    if (await session.execute(live)).scalar_one() >= MAX_LIVE_KEYS:
        raise Conflict(
            f"The environment has {MAX_LIVE_KEYS:,} live ingest keys, which is the limit: revoke one first."
        )
    secret = make_credential(CredentialKind.INGEST_KEY)
    key = IngestKey(
        environment_id=target.environment.id,
        digest=digest_credential(secret),
        created_at=now,
        expires_at=expires_at,
    )
    session.add(key)
    await session.flush()
    _record(session, target, "ingest-key.create", key, actor, now)
    return key, secret


async def revoke_ingest_key(
    session: AsyncSession, target: DeployTarget, key_id: int | None, actor: Actor, now: datetime
) -> IngestKey:
    """Revoke an ingest key of the environment; a revoked key stays unchanged. Raises `NotFound`."""
    is_key = (IngestKey.id == (key_id or 0)) & (IngestKey.environment_id == target.environment.id)
    revoked = await session.execute(
        update(IngestKey)
        .where(is_key, IngestKey.revoked_at.is_(None))
        .values(revoked_at=now, sealed=None, sealing_key_id=None)
        .returning(IngestKey.id)
        .execution_options(synchronize_session=False)
    )
    is_revoked = revoked.scalar_one_or_none() is not None
    key = (await session.execute(select(IngestKey).where(is_key))).scalar_one_or_none()
    if key is None:
        raise NotFound("The environment has no such ingest key.")
    if is_revoked:
        _record(session, target, "ingest-key.revoke", key, actor, now)
    return key


def _record(
    session: AsyncSession, target: DeployTarget, action: str, key: IngestKey, actor: Actor, now: datetime
) -> None:
    details = {"environment": target.environment.public_id}
    record_audit_entry(
        session, actor, target.project.account_id, action, f"ingest-key {key.id}", now, details
    )
