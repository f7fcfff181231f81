"""Locks of environments: while one is there, nobody deploys."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record
from control_domain.database.engine import insert_unless_there
from control_domain.projects.find import Place
from control_domain.tables.accounts import Person
from control_domain.tables.projects import Environment, EnvironmentLock


@dataclass(frozen=True, slots=True)
class HeldLock:
    """Why an environment is locked, by whom (an e-mail address; None: an operator), and since when."""

    reason: str
    by: str | None
    since: datetime


async def find_lock(session: AsyncSession, environment: Environment) -> HeldLock | None:
    """The environment's lock; None where there is none."""
    row = (
        await session.execute(
            select(EnvironmentLock.reason, Person.email, EnvironmentLock.locked_at)
            .outerjoin(Person, Person.id == EnvironmentLock.person_id)
            .where(EnvironmentLock.environment_id == environment.id)
        )
    ).one_or_none()
    return None if row is None else HeldLock(*row)


async def lock_environment(
    session: AsyncSession, place: Place, reason: str, actor: Actor, now: datetime
) -> bool:
    """Let nobody deploy to the environment; False where somebody has locked it already, which changes nothing."""
    values = {
        "environment_id": place.environment.id,
        "reason": reason,
        "person_id": actor.person_id,
        "locked_at": now,
    }
    made = insert_unless_there(session, EnvironmentLock, values).returning(EnvironmentLock.environment_id)
    if (await session.execute(made)).scalar_one_or_none() is None:
        return False
    subject = f"environment {place.environment.public_id}"
    record(session, actor, place.project.account_id, "environment.lock", subject, now, {"reason": reason})
    await session.flush()
    return True


async def unlock_environment(
    session: AsyncSession, place: Place, actor: Actor, now: datetime
) -> HeldLock | None:
    """Let people deploy again; gives the lock that was there. Where there was none nothing is changed."""
    # What is removed is what is told: somebody else may have locked it anew since it was looked at.
    removed = await session.execute(
        delete(EnvironmentLock)
        .where(EnvironmentLock.environment_id == place.environment.id)
        .returning(EnvironmentLock.reason, EnvironmentLock.person_id, EnvironmentLock.locked_at)
        .execution_options(synchronize_session=False)
    )
    row = removed.one_or_none()
    if row is None:
        return None
    reason, person_id, since = row
    by = (await session.execute(select(Person.email).where(Person.id == person_id))).scalar_one_or_none()
    subject, details = f"environment {place.environment.public_id}", {"reason": reason, "by": by}
    record(session, actor, place.project.account_id, "environment.unlock", subject, now, details)
    await session.flush()
    return HeldLock(reason, by, since)
