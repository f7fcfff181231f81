"""Stored passwords of people."""

from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.statements import dialect_insert
from control_domain.tables.sign_in import Password


async def read_password_hash(session: AsyncSession, person_id: int) -> str | None:
    """Return the hash of the person's password, or None without one."""
    query = select(Password.hash).where(Password.person_id == person_id)
    return (await session.execute(query)).scalar_one_or_none()


async def set_password_hash(session: AsyncSession, person_id: int, hash: str, now: datetime) -> None:
    """Store the first or another password of a person."""
    statement = dialect_insert(session, Password).values(person_id=person_id, hash=hash, changed_at=now)
    changed = {"hash": hash, "changed_at": now}
    await session.execute(statement.on_conflict_do_update(index_elements=[Password.person_id], set_=changed))


async def replace_password_hash(
    session: AsyncSession, person_id: int, former: str | None, hash: str, now: datetime
) -> bool:
    """Store the password if the present one is still `former`. Return True if it was stored."""
    if former is None:
        statement = dialect_insert(session, Password).values(person_id=person_id, hash=hash, changed_at=now)
        statement = statement.on_conflict_do_nothing().returning(Password.person_id)
    else:
        statement = (
            update(Password)
            .where(Password.person_id == person_id, Password.hash == former)
            .values(hash=hash, changed_at=now)
            .returning(Password.person_id)
            .execution_options(synchronize_session=False)
        )
    return (await session.execute(statement)).first() is not None


async def lock_password(session: AsyncSession, person_id: int, hash: str) -> bool:
    """Lock the person's password until the end of the transaction. Return False if it has changed meanwhile."""
    locked = await session.execute(
        update(Password)
        .where(Password.person_id == person_id, Password.hash == hash)
        .values(changed_at=Password.changed_at)
        .returning(Password.person_id)
        .execution_options(synchronize_session=False)
    )
    return locked.first() is not None


async def has_any_password(session: AsyncSession) -> bool:
    """Return True if somebody in the installation has a password."""
    return (await session.execute(select(Password.person_id).limit(1))).first() is not None
