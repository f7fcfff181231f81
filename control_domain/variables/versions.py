"""The versions of an environment's variables."""

from collections.abc import Collection, Mapping
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.sealing import Sealed, SealingKeys
from control_domain.tables.projects import Environment
from control_domain.tables.variables import VariableChange, VariableSet


async def find_newest_variables(session: AsyncSession, environment: Environment) -> VariableSet | None:
    """Return the environment's newest version of variables; None if it never had any."""
    query = (
        select(VariableSet)
        .where(VariableSet.environment_id == environment.id)
        .order_by(VariableSet.version.desc())
        .limit(1)
    )
    return (await session.execute(query)).scalar_one_or_none()


def open_variables(
    keys: SealingKeys, row: VariableSet | VariableChange | None, environment_id: str
) -> dict[str, str]:
    """Return the variables of a version or a pending change of the environment with this public ID; empty if there is
    none. Raises `CannotOpen`."""
    if row is None or row.sealed is None or row.key_id is None:
        return {}
    return keys.open(Sealed(row.key_id, row.sealed), environment_id)


def merge_update(
    current: Mapping[str, str], values: Mapping[str, str], removed: Collection[str]
) -> dict[str, str]:
    """Return the current variables with some set and some removed. The remaining variables keep their order."""
    return {**{name: value for name, value in current.items() if name not in removed}, **values}


async def add_version(
    session: AsyncSession,
    environment: Environment,
    sealed: Sealed,
    count: int,
    person_id: int | None,
    now: datetime,
    *,
    is_update: bool,
) -> None:
    """Store the next version of the locked environment's variables. `is_update`: it keeps variables of the version
    before it."""
    before = select(func.coalesce(func.max(VariableSet.version), 0)).where(
        VariableSet.environment_id == environment.id
    )
    session.add(
        VariableSet(
            environment_id=environment.id,
            version=(await session.execute(before)).scalar_one() + 1,
            count=count,
            key_id=sealed.key_id,
            sealed=sealed.data,
            set_by_id=person_id,
            created_at=now,
            is_update=is_update,
        )
    )
    await session.flush()
