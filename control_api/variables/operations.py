"""What is done with variables: replaced, proposed, decided on, sealed again under another key."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.audit.operations import Actor, record
from control_api.projects.find import Place
from control_api.projects.tables import Environment
from control_api.variables.sealing import Sealed, SealingKeys
from control_api.variables.tables import VariableChange, VariableSet
from pipeline_contracts.deploy_states import ChangeState, ForbiddenMove, check_move


async def replace_variables(
    session: AsyncSession,
    keys: SealingKeys,
    place: Place,
    values: Mapping[str, str],
    actor: Actor,
    now: datetime,
) -> int | None:
    """Make these all the variables that the environment has, for the next release: None. Where it wants a second
    person: the ID of the change that waits for one; an earlier one that waits is superseded."""
    environment, project = place
    sealed = keys.seal(values, environment.public_id)
    subject, details = f"environment {environment.public_id}", {"names": sorted(values)}
    await _lock(session, environment)
    if not environment.variables_need_approval:
        await _add_version(session, environment, sealed, len(values), actor.person_id, now)
        record(session, actor, project.account_id, "variables.replace", subject, now, details)
        await session.flush()
        return None
    await _supersede(session, environment, now)
    change = VariableChange(
        environment_id=environment.id,
        state=ChangeState.PENDING.value,
        count=len(values),
        key_id=sealed.key_id,
        sealed=sealed.data,
        asked_by_id=actor.person_id,
        created_at=now,
    )
    session.add(change)
    record(session, actor, project.account_id, "variables.propose", subject, now, details)
    await session.flush()
    return change.id


async def _lock(session: AsyncSession, environment: Environment) -> None:
    """Let nobody else change the environment's variables until the end of the transaction.

    An update, because SQLite locks nothing when it reads. It gives `environment` the present settings.
    """
    await session.execute(
        update(Environment).where(Environment.id == environment.id).values(position=Environment.position)
    )
    await session.refresh(environment)


async def _supersede(session: AsyncSession, environment: Environment, now: datetime) -> None:
    pending = (VariableChange.environment_id == environment.id) & (
        VariableChange.state == ChangeState.PENDING.value
    )
    check_move(ChangeState.PENDING, ChangeState.SUPERSEDED)
    await session.execute(
        update(VariableChange)
        .where(pending)
        .values(state=ChangeState.SUPERSEDED.value, sealed=None, key_id=None, decided_at=now)
    )


async def _add_version(
    session: AsyncSession,
    environment: Environment,
    sealed: Sealed,
    count: int,
    person_id: int | None,
    now: datetime,
) -> None:
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
        )
    )
    await session.flush()


async def decide_change(
    session: AsyncSession,
    change: VariableChange,
    environment: Environment,
    to: ChangeState,
    person_id: int,
    now: datetime,
) -> None:
    """Apply a change that waits, or reject it. Raises `ForbiddenMove` for one that was decided already."""
    await _lock(session, environment)
    await session.refresh(change)
    sealed = change.sealed
    check_move(ChangeState(change.state), to)
    if sealed is None or change.key_id is None:
        raise ForbiddenMove(ChangeState(change.state), to)
    if to is ChangeState.APPLIED:
        # Whose variables they are is who asked; who agreed stands in the change.
        of = change.asked_by_id
        await _add_version(session, environment, Sealed(change.key_id, sealed), change.count, of, now)
    change.state = to.value
    change.sealed = change.key_id = None
    change.decided_by_id = person_id
    change.decided_at = now
    await session.flush()


async def present_variables(session: AsyncSession, environment: Environment) -> VariableSet | None:
    """The environment's newest version; None: it has never had any."""
    query = (
        select(VariableSet)
        .where(VariableSet.environment_id == environment.id)
        .order_by(VariableSet.version.desc())
        .limit(1)
    )
    return (await session.execute(query)).scalar_one_or_none()


async def reseal(session: AsyncSession, keys: SealingKeys, most: int) -> int:
    """Seal again, with the present key, up to `most` sets and as many changes that an older one has sealed; gives how
    many there were.

    Raises `CannotOpen` for one whose key is gone.
    """
    return await _reseal(session, keys, VariableSet, most) + await _reseal(
        session, keys, VariableChange, most
    )


async def _reseal(
    session: AsyncSession, keys: SealingKeys, table: type[VariableSet] | type[VariableChange], most: int
) -> int:
    query = (
        select(table, Environment.public_id)
        .join(Environment, Environment.id == table.environment_id)
        .where(table.sealed.is_not(None), table.key_id != keys.key_id)
        .limit(most)
    )
    rows: Sequence[Any] = (await session.execute(query)).all()
    for row, environment_id in rows:
        fresh = keys.seal(keys.open(Sealed(row.key_id, row.sealed), environment_id), environment_id)
        row.key_id, row.sealed = fresh.key_id, fresh.data
    await session.flush()
    return len(rows)
