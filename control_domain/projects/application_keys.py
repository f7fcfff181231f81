"""The ingest key of each environment that its deployed application gets from the platform."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.database.statements import lock_row
from control_domain.sealing import CannotOpen, Sealed, SealingKeys
from control_domain.tables.accounts import Account
from control_domain.tables.projects import Environment, IngestKey, Project
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential
from pipeline_contracts.settings import PREFIX

KEY_NAME = "deployed application"
_ACTOR = Actor("deployer")
_SECRET = "key"


@dataclass(frozen=True, slots=True)
class ApplicationKey:
    """The key of one environment, with what its application needs to send telemetry."""

    secret: str = field(repr=False)
    environment_id: str
    """The public ID."""
    environment: str
    """The slug."""
    project: str
    """The slug."""
    account_id: int
    ingest_rate: float
    """Events a second that the whole account may send."""
    ingest_burst: int
    """Events that the whole account may send at once: larger batches are refused."""


def application_key_owner(environment_id: str) -> str:
    """Return the owner for which the key of the environment with this public ID is sealed."""
    return f"{environment_id} application key"


def _is_live_application_key(now: datetime) -> tuple[ColumnElement[bool], ...]:
    return (
        IngestKey.sealed.is_not(None),
        IngestKey.revoked_at.is_(None),
        or_(IngestKey.expires_at.is_(None), IngestKey.expires_at > now),
    )


async def find_application_keys(
    session: AsyncSession, keys: SealingKeys, environment_ids: Collection[str], now: datetime
) -> dict[str, ApplicationKey]:
    """Return the newest live key of each of these environments, by public ID; environments without one are left out,
    and so are keys that `keys` do not open."""
    query = (
        select(IngestKey.sealing_key_id, IngestKey.sealed, Environment, Project.slug, Account)
        .join(Environment, Environment.id == IngestKey.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .join(Account, Account.id == Project.account_id)
        .where(
            Environment.public_id.in_(environment_ids),
            *_is_live_application_key(now),
        )
        .order_by(IngestKey.id)
    )
    found = {}
    for key_id, sealed, environment, project, account in await session.execute(query):
        # The query leaves rows without a sealed secret out.
        assert key_id is not None and sealed is not None
        try:
            values = keys.open(Sealed(key_id, sealed), application_key_owner(environment.public_id))
        except CannotOpen:
            continue
        found[environment.public_id] = ApplicationKey(
            secret=values[_SECRET],
            environment_id=environment.public_id,
            environment=environment.slug,
            project=project,
            account_id=account.id,
            ingest_rate=account.ingest_rate,
            ingest_burst=account.ingest_burst,
        )
    return found


async def ensure_application_key(
    session: AsyncSession, keys: SealingKeys, environment_id: str, now: datetime
) -> tuple[ApplicationKey, bytes | None] | None:
    """Return the key of the environment with this public ID, and its digest if this call has created the key: publish
    it after the commit. None if the environment was removed.

    Raises `CannotOpen` if the environment has a key that `keys` do not open. A second one would be sealed under a key
    that may be a typing error, and then neither a rotation nor a test of a backup could open all values.
    """
    found = await find_application_keys(session, keys, [environment_id], now)
    if environment_id in found:
        return found[environment_id], None
    if not await lock_row(session, Environment.name, Environment.public_id == environment_id):
        return None
    found = await find_application_keys(session, keys, [environment_id], now)
    if environment_id in found:
        return found[environment_id], None
    if number := await _find_sealed_key(session, environment_id, now):
        raise CannotOpen(
            f"The key with which the application sends telemetry (ingest key {number} of {environment_id}) is sealed "
            f"under another key. Start again with the former {PREFIX}VARIABLES_KEY, or revoke this ingest key: the "
            "next deployment then creates a new one."
        )
    digest = await _create(session, keys, environment_id, now)
    return (await find_application_keys(session, keys, [environment_id], now))[environment_id], digest


async def explain_missing_key(session: AsyncSession, environment_id: str, now: datetime) -> str | None:
    """Return why `find_application_keys` finds no key of the environment with this public ID, in one line; None if the
    environment was removed."""
    # Account scope: the deployer has run this environment.
    query = (
        select(Project.slug, Environment.slug)
        .join(Environment, Environment.project_id == Project.id)
        .where(Environment.public_id == environment_id)
    )
    row = (await session.execute(query)).one_or_none()
    if row is None:
        return None
    fault = f"environment {row[0]}/{row[1]} has no usable ingest key"
    if number := await _find_sealed_key(session, environment_id, now):
        return (
            f"{fault}: ingest key {number} is sealed under another key. Start again with the former "
            f"{PREFIX}VARIABLES_KEY, or revoke this ingest key and deploy again"
        )
    return f"{fault}; deploy again"


async def _find_sealed_key(session: AsyncSession, environment_id: str, now: datetime) -> int | None:
    # Account scope: the deployer holds the lease of this environment.
    query = (
        select(func.max(IngestKey.id))
        .join(Environment, Environment.id == IngestKey.environment_id)
        .where(
            Environment.public_id == environment_id,
            *_is_live_application_key(now),
        )
    )
    return (await session.execute(query)).scalar_one()


async def _create(session: AsyncSession, keys: SealingKeys, environment_id: str, now: datetime) -> bytes:
    # Account scope: the deployer holds the lease of this environment.
    environment, account_id = (
        await session.execute(
            select(Environment, Project.account_id)
            .join(Project, Project.id == Environment.project_id)
            .where(Environment.public_id == environment_id)
        )
    ).one()
    secret = make_credential(CredentialKind.INGEST_KEY)
    sealed = keys.seal({_SECRET: secret}, application_key_owner(environment_id))
    key = IngestKey(
        environment_id=environment.id,
        digest=digest_credential(secret),
        created_at=now,
        name=KEY_NAME,
        sealing_key_id=sealed.key_id,
        sealed=sealed.data,
    )
    session.add(key)
    await session.flush()
    details = {"environment": environment_id, "name": KEY_NAME}
    record_audit_entry(session, _ACTOR, account_id, "ingest-key.create", f"ingest-key {key.id}", now, details)
    await session.flush()
    return key.digest
