"""Locks of environments: a locked environment refuses deployments."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.database.statements import insert_if_absent
from control_domain.projects.find import DeployTarget
from control_domain.tables.accounts import Person
from control_domain.tables.projects import Environment, EnvironmentLock


@dataclass(frozen=True, slots=True)
class DeployLock:
    """The lock of an environment: its reason, who set it, and when."""

    reason: str
    by: str | None
    """An e-mail address; None for an unnamed operator."""
    since: datetime
    by_id: int | None = None


async def find_lock(session: AsyncSession, environment: Environment) -> DeployLock | None:
    row = (
        await session.execute(
            select(EnvironmentLock.reason, Person.email, EnvironmentLock.locked_at, EnvironmentLock.person_id)
            .outerjoin(Person, Person.id == EnvironmentLock.person_id)
            .where(EnvironmentLock.environment_id == environment.id)
        )
    ).one_or_none()
    return None if row is None else DeployLock(*row)


async def lock_environment(
    session: AsyncSession, target: DeployTarget, reason: str, actor: Actor, now: datetime
) -> bool:
    """Lock the environment. Return False and change nothing if it is locked already."""
    values = {
        "environment_id": target.environment.id,
        "reason": reason,
        "person_id": actor.person_id,
        "locked_at": now,
    }
    made = insert_if_absent(session, EnvironmentLock, values).returning(EnvironmentLock.environment_id)
    if (await session.execute(made)).scalar_one_or_none() is None:
        return False
    subject = f"environment {target.environment.public_id}"
    record_audit_entry(
        session, actor, target.project.account_id, "environment.lock", subject, now, {"reason": reason}
    )
    await session.flush()
    return True


async def unlock_environment(
    session: AsyncSession, target: DeployTarget, actor: Actor, now: datetime
) -> DeployLock | None:
    """Unlock the environment and return the removed lock, or None if it was not locked."""
    # Read with the DELETE itself: a lock read before may have been replaced by another one.
    removed = await session.execute(
        delete(EnvironmentLock)
        .where(EnvironmentLock.environment_id == target.environment.id)
        .returning(EnvironmentLock.reason, EnvironmentLock.person_id, EnvironmentLock.locked_at)
        .execution_options(synchronize_session=False)
    )
    row = removed.one_or_none()
    if row is None:
        return None
    reason, person_id, since = row
    by = (await session.execute(select(Person.email).where(Person.id == person_id))).scalar_one_or_none()
    subject, details = f"environment {target.environment.public_id}", {"reason": reason, "by": by}
    record_audit_entry(session, actor, target.project.account_id, "environment.unlock", subject, now, details)
    await session.flush()
    return DeployLock(reason, by, since, person_id)
