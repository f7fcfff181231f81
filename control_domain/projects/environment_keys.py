"""Keys of environments, with audit entries: what ingest keys and ping keys of environments have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from sqlalchemy import func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.keys import check_expiry
from control_domain.paging import Page
from control_domain.projects.find import DeployTarget
from control_domain.tables.projects import EnvironmentPingKey, IngestKey
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential
from pipeline_contracts.errors import Conflict, NotFound

Key = TypeVar("Key", IngestKey, EnvironmentPingKey)


@dataclass(frozen=True, slots=True)
class EnvironmentKeys(Generic[Key]):
    """Lists, creates and revokes the keys of one kind."""

    table: type[Key]
    kind: CredentialKind
    name: str
    """`ingest key`, for messages."""
    subject: str
    """`ingest-key`, for audit entries."""
    max_live: int
    """The most live keys of one environment. Each control plane publishes all of them when it starts."""
    cleared: Mapping[str, None] = field(default_factory=dict)
    """The columns that are emptied when a key is revoked."""

    async def list_page(
        self, session: AsyncSession, target: DeployTarget, page: Page
    ) -> tuple[Sequence[Key], bool]:
        """Return a page of the keys of the environment, newest first, and whether more follow."""
        table = self.table
        query = (
            select(table)
            .where(table.environment_id == target.environment.id)
            .order_by(table.id.desc())
            .limit(page.limit + 1)
        )
        if page.before is not None:
            query = query.where(table.id < page.before)
        rows = (await session.execute(query)).scalars().all()
        return rows[: page.limit], len(rows) > page.limit

    async def add(
        self,
        session: AsyncSession,
        target: DeployTarget,
        expires_at: datetime | None,
        actor: Actor,
        now: datetime,
    ) -> tuple[Key, str]:
        """Create a key of the environment, and return it with its secret, which is not stored. The others keep working.

        Raises `InvalidInput`, and `Conflict` if the environment has too many live keys.
        """
        table = self.table
        check_expiry(expires_at, now)
        live = select(func.count()).where(
            table.environment_id == target.environment.id,
            table.revoked_at.is_(None),
            or_(table.expires_at.is_(None), table.expires_at > now),
        )
        if (await session.execute(live)).scalar_one() >= self.max_live:
            raise Conflict(
                f"The environment has {self.max_live:,} live {self.name}s, which is the limit: revoke one first."
            )
        secret = make_credential(self.kind)
        key = table(
            environment_id=target.environment.id,
            digest=digest_credential(secret),
            created_at=now,
            expires_at=expires_at,
        )
        session.add(key)
        await session.flush()
        self._record(session, target, "create", key, actor, now)
        return key, secret

    async def revoke(
        self, session: AsyncSession, target: DeployTarget, key_id: int | None, actor: Actor, now: datetime
    ) -> Key:
        """Revoke a key of the environment; a revoked key stays unchanged. Raises `NotFound`."""
        table = self.table
        is_key = (table.id == (key_id or 0)) & (table.environment_id == target.environment.id)
        revoked = await session.execute(
            update(table)
            .where(is_key, table.revoked_at.is_(None))
            .values(revoked_at=now, **self.cleared)
            .returning(table.id)
            .execution_options(synchronize_session=False)
        )
        is_revoked = revoked.scalar_one_or_none() is not None
        key = (await session.execute(select(table).where(is_key))).scalar_one_or_none()
        if key is None:
            raise NotFound(f"The environment has no such {self.name}.")
        if is_revoked:
            self._record(session, target, "revoke", key, actor, now)
        return key

    def _record(
        self, session: AsyncSession, target: DeployTarget, verb: str, key: Key, actor: Actor, now: datetime
    ) -> None:
        details = {"environment": target.environment.public_id}
        action, subject = f"{self.subject}.{verb}", f"{self.subject} {key.id}"
        record_audit_entry(session, actor, target.project.account_id, action, subject, now, details)
