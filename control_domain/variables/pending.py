"""Changes of variables that wait for a second person."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

import msgspec
from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.sealing import Sealed, SealingKeys
from control_domain.tables.projects import Environment
from control_domain.tables.variables import ChangeKind, VariableChange, VariableSet
from control_domain.variables.versions import merge_update, open_variables
from pipeline_contracts.deploy_states import ChangeState, check_transition
from pipeline_contracts.errors import Conflict

MAX_PENDING = 100
"""The number of changes that may wait in one environment."""

OF_VALUES = (ChangeKind.REPLACE, ChangeKind.UPDATE)
"""The kinds of changes that lead to a new version."""


class ChangedNames(msgspec.Struct, omit_defaults=True):
    """The column `VariableChange.names`."""

    set: list[str] = []
    unset: list[str] = []
    unprotect: list[str] = []


def read_changed_names(change: VariableChange) -> ChangedNames:
    """Return the names of an update or an end of protection; empty for a replacement."""
    return ChangedNames() if change.names is None else msgspec.json.decode(change.names, type=ChangedNames)


def write_changed_names(names: ChangedNames) -> str:
    """Return the value of the column `VariableChange.names`."""
    return msgspec.json.encode(names).decode()


async def find_pending_changes(
    session: AsyncSession, environment: Environment, kinds: Collection[ChangeKind] = tuple(ChangeKind)
) -> Sequence[VariableChange]:
    """Return the changes of the environment that wait, the oldest first."""
    query = (
        select(VariableChange)
        .where(
            VariableChange.environment_id == environment.id,
            VariableChange.is_pending(),
            VariableChange.kind.in_(kinds),
        )
        .order_by(VariableChange.id)
        .execution_options(populate_existing=True)
    )
    return (await session.execute(query)).scalars().all()


async def add_pending_change(
    session: AsyncSession,
    environment: Environment,
    kind: ChangeKind,
    count: int,
    sealed: Sealed | None,
    asked_by_id: int | None,
    now: datetime,
    names: ChangedNames | None = None,
) -> int:
    """Store a change of the locked environment that waits for a second person, and return its ID."""
    change = VariableChange(
        environment_id=environment.id,
        state=VariableChange.pending_state(kind),
        kind=kind.value,
        count=count,
        names=None if names is None else write_changed_names(names),
        key_id=None if sealed is None else sealed.key_id,
        sealed=None if sealed is None else sealed.data,
        asked_by_id=asked_by_id,
        created_at=now,
    )
    session.add(change)
    await session.flush()
    return change.id


async def check_may_wait(session: AsyncSession, environment: Environment) -> None:
    """Raise `Conflict` if the limit of waiting changes in the locked environment is reached."""
    query = select(func.count()).where(
        VariableChange.environment_id == environment.id, VariableChange.is_pending()
    )
    if (await session.execute(query)).scalar_one() >= MAX_PENDING:
        raise Conflict(
            f"{MAX_PENDING} changes of the environment's variables wait for a second person: approve "
            "or reject some of them first."
        )


async def supersede(
    session: AsyncSession,
    environment: Environment,
    now: datetime,
    kinds: Collection[ChangeKind],
    before_id: int | None = None,
) -> None:
    """End the environment's waiting changes of these kinds, only those with lower IDs if `before_id` is given."""
    check_transition(ChangeState.PENDING, ChangeState.SUPERSEDED)
    query = update(VariableChange).where(
        VariableChange.environment_id == environment.id,
        VariableChange.is_pending(),
        VariableChange.kind.in_(kinds),
    )
    if before_id is not None:
        query = query.where(VariableChange.id < before_id)
    await session.execute(
        query.values(state=ChangeState.SUPERSEDED.value, sealed=None, key_id=None, decided_at=now)
    )


def merge_pending(
    keys: SealingKeys,
    environment: Environment,
    current: VariableSet | None,
    pending: Iterable[VariableChange],
) -> dict[str, str]:
    """Return the variables as they will be if every change that waits is approved, in the order of `pending`.

    In an environment that requires no approval any more, these are the current variables: changes that still wait are
    superseded by the next change. Raises `CannotOpen`.
    """
    values = open_variables(keys, current, environment.public_id)
    if not environment.variables_need_approval:
        return values
    for change in pending:
        if change.kind == ChangeKind.REPLACE:
            values = open_variables(keys, change, environment.public_id)
        elif change.kind == ChangeKind.UPDATE:
            removed = frozenset(read_changed_names(change).unset)
            values = merge_update(values, open_variables(keys, change, environment.public_id), removed)
    return values
