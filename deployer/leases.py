"""Leases of environments: each environment has one deployer at a time.

A lease that is not renewed expires, and another deployer may take it. Each new lease has a higher fence, and every
write checks the fence, so a former holder that was only slow can change nothing. Only the clock of the database decides
when a lease ends, as the clocks of two machines may differ.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, case, delete, exists, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.clock import database_now
from control_domain.database.engine import Sessions
from control_domain.database.statements import insert_if_absent, use_snapshot
from control_domain.tables.projects import Environment
from control_domain.tables.runtime import EnvironmentLease, Instance
from deployer.identity import Identity
from deployer.shield import shielded
from pipeline_contracts.deploy_states import EnvironmentState

LEASE_SECONDS = 15.0
RENEW_SECONDS = 5.0
_MARGIN_SECONDS = 1.0

Check = Callable[[AsyncSession], Awaitable[None]]
"""Raises an error if the database of the session is not the deployer's own."""


class LeaseLost(Exception):
    """Another deployer has taken the environment, or the environment was removed."""


def _end_of_term() -> float:
    return time.monotonic() + LEASE_SECONDS


@dataclass(slots=True)
class Lease:
    """The right to run one environment. `fence`: the number under which the lease was taken."""

    environment_id: int
    holder: str
    fence: int
    """The fence rises each time that the lease is taken again. All writers under the lease share this object."""
    holder_name: str = ""
    ends_at: float = field(default_factory=_end_of_term, compare=False)
    """The time, by the monotonic clock, before which no other deployer can have taken the environment."""


@shielded
async def take_lease(
    sessions: Sessions, identity: Identity, environment_id: int, address: str, *, above: int = 0
) -> Lease | None:
    """Take the lease of an environment. This works if nobody has the lease, if it has expired, or if a former process
    of this deployer has it.

    Return None if another deployer has the lease, or if the environment was removed. The fence is higher than `above`.
    """
    ends_at = _end_of_term()
    held = {
        "holder": identity.id,
        "holder_name": identity.name,
        "leased_until": database_now(LEASE_SECONDS),
        "address": address,
        "doing": None,
    }
    try:
        async with sessions() as session, session.begin():
            first = {"environment_id": environment_id, "fence": above + 1, **held}
            made = insert_if_absent(session, EnvironmentLease, first).returning(EnvironmentLease.fence)
            fence = (await session.execute(made)).scalar_one_or_none()
            if fence is None:
                fence = await _take_row(
                    session, identity, environment_id, {"fence": _higher(above) + 1, **held}
                )
    except IntegrityError:
        return None
    return None if fence is None else Lease(environment_id, identity.id, fence, identity.name, ends_at)


async def _take_row(
    session: AsyncSession, identity: Identity, environment_id: int, values: Mapping[str, Any]
) -> int | None:
    mine = EnvironmentLease.environment_id == environment_id
    others = select(EnvironmentLease.environment_id).where(mine, EnvironmentLease.holder != identity.id)
    is_others = await session.scalar(others.with_for_update()) is not None
    is_free = EnvironmentLease.leased_until < database_now()
    taken = await session.execute(
        update(EnvironmentLease)
        .where(mine, or_(_is_held_by(identity.id, identity.name), is_free))
        .values(values)
        .returning(EnvironmentLease.fence)
        .execution_options(synchronize_session=False)
    )
    fence: int | None = taken.scalar_one_or_none()
    if fence is not None and is_others:
        # From now on the `instances` table lists the instances of the new holder.
        await session.execute(delete(Instance).where(Instance.environment_id == environment_id))
    return fence


def _is_held_by(holder: str, holder_name: str) -> ColumnElement[bool]:
    # Compare the name too: otherwise two copies of one folder would take the lease from each other, and end each
    # other's instances.
    return (EnvironmentLease.holder == holder) & (EnvironmentLease.holder_name == holder_name)


def _higher(fence: int) -> ColumnElement[int]:
    """Return SQL for the higher of the stored fence and `fence`: a restored backup has an older, lower fence."""
    return case((EnvironmentLease.fence > fence, EnvironmentLease.fence), else_=fence)


@shielded
async def renew_leases(sessions: Sessions, leases: Sequence[Lease]) -> set[int]:
    """Extend the leases. Return the environments whose lease is missing in the database or has another holder."""
    if not leases:
        return set()
    mine = {lease.environment_id: lease.fence for lease in leases}
    holder, holder_name = leases[0].holder, leases[0].holder_name
    ends_at = _end_of_term()
    async with sessions() as session, session.begin():
        renewed = await session.execute(
            update(EnvironmentLease)
            .where(EnvironmentLease.environment_id.in_(mine), _is_held_by(holder, holder_name))
            .values(leased_until=database_now(LEASE_SECONDS))
            .returning(EnvironmentLease.environment_id, EnvironmentLease.fence)
            .execution_options(synchronize_session=False)
        )
        fences = {row.environment_id: row.fence for row in renewed}
        # No other deployer has taken these leases, but their fences differ: the database was restored from a backup.
        for number in [number for number, fence in fences.items() if fence != mine[number]]:
            again = await session.execute(
                update(EnvironmentLease)
                .where(EnvironmentLease.environment_id == number)
                .values(fence=_higher(mine[number]) + 1)
                .returning(EnvironmentLease.fence)
                .execution_options(synchronize_session=False)
            )
            fences[number] = again.scalar_one()
    for lease in leases:
        if lease.environment_id in fences:
            lease.fence, lease.ends_at = fences[lease.environment_id], ends_at
    return mine.keys() - fences.keys()


@shielded
async def shorten_leases(sessions: Sessions) -> None:
    """Shorten each lease that would last longer than a lease that is taken now. Such leases exist after the database's
    clock was set back.

    This does not end them at once, because the lease of a running deployer also lasts too long until its next renewal.
    """
    is_too_long = EnvironmentLease.leased_until > database_now(LEASE_SECONDS + _MARGIN_SECONDS)
    async with sessions() as session, session.begin():
        # Such leases are rare, and a query without a write is cheap.
        if not await session.scalar(select(exists().where(is_too_long))):
            return
        await session.execute(
            update(EnvironmentLease)
            .where(is_too_long)
            .values(leased_until=database_now(LEASE_SECONDS))
            .execution_options(synchronize_session=False)
        )


@shielded
async def extend_held_leases(sessions: Sessions, identity: Identity, leases: Sequence[Lease]) -> None:
    """While the deployer refuses the database: extend the leases that it holds, and take no new ones.

    `leases`: the leases that the deployer has in memory. After a restart, the database has more leases of this
    deployer.
    """
    ends_at = _end_of_term()
    async with sessions() as session, session.begin():
        held = await session.execute(
            update(EnvironmentLease)
            .where(_is_held_by(identity.id, identity.name), EnvironmentLease.leased_until > database_now())
            .values(leased_until=database_now(LEASE_SECONDS))
            .returning(EnvironmentLease.environment_id, EnvironmentLease.fence)
            .execution_options(synchronize_session=False)
        )
        fences = {row.environment_id: row.fence for row in held}
    for lease in leases:
        if fences.get(lease.environment_id) == lease.fence:
            lease.ends_at = ends_at


@shielded
async def retake_lease(sessions: Sessions, identity: Identity, lease: Lease, address: str) -> bool:
    """Take a lease again whose row is missing, or whose new holder has let it expire. Return False if the lease is
    lost: another deployer has the environment, or the environment was removed."""
    taken = await take_lease(sessions, identity, lease.environment_id, address, above=lease.fence)
    if taken is None:
        return False
    lease.fence, lease.ends_at = taken.fence, taken.ends_at
    return True


@shielded
async def is_lost(sessions: Sessions, lease: Lease, check: Check | None = None) -> bool:
    """Return True if another deployer has the environment, or if the environment was removed. Return False if only the
    fence differs.

    Calls `check` in the same transaction, because a restore of the database may begin at any time. Raises the errors of
    `check`.
    """
    query = (
        select(
            EnvironmentLease.fence,
            _is_held_by(lease.holder, lease.holder_name).label("is_mine"),
            (EnvironmentLease.leased_until > database_now()).label("is_leased"),
        )
        .select_from(Environment)
        .outerjoin(EnvironmentLease, EnvironmentLease.environment_id == Environment.id)
        .where(Environment.id == lease.environment_id)
    )
    async with sessions() as session:
        if check is not None:
            await use_snapshot(session)
            await check(session)
        row = (await session.execute(query)).one_or_none()
    if row is None:
        return True
    return row.fence is not None and not row.is_mine and row.is_leased


def is_run_elsewhere(holder: str) -> ColumnElement[bool]:
    """Return SQL that is true for the lease of another deployer that runs instances of the environment, or that has no
    instances to run."""
    runs = exists().where(
        Instance.environment_id == EnvironmentLease.environment_id, Instance.state == "running"
    )
    hibernates = exists().where(
        Environment.id == EnvironmentLease.environment_id, Environment.state != EnvironmentState.RUNNING
    )
    is_elsewhere = (EnvironmentLease.holder != holder) & (EnvironmentLease.leased_until > database_now())
    return is_elsewhere & (runs | hibernates)


@shielded
async def end_leases(sessions: Sessions, leases: Sequence[Lease]) -> None:
    """End the leases, so that other deployers can take the environments at once: this deployer and its instances
    stop."""
    if not leases:
        return
    async with sessions() as session, session.begin():
        await session.execute(
            update(EnvironmentLease)
            .where(
                EnvironmentLease.environment_id.in_([lease.environment_id for lease in leases]),
                EnvironmentLease.holder == leases[0].holder,
            )
            .values(leased_until=database_now(), doing=None)
            .execution_options(synchronize_session=False)
        )


async def lock_lease(session: AsyncSession, lease: Lease, **columns: str | None) -> None:
    """Lock the lease's row until the end of the transaction, so that no other deployer can take the environment. Call
    this first in the transaction. `columns`: further columns of the row to set, such as `doing`. Raises `LeaseLost`."""
    mine = (
        EnvironmentLease.environment_id == lease.environment_id,
        EnvironmentLease.holder == lease.holder,
        EnvironmentLease.fence == lease.fence,
    )
    # Use an UPDATE, because in SQLite a read locks nothing.
    held = await session.execute(
        update(EnvironmentLease)
        .where(*mine)
        .values(fence=lease.fence, **columns)
        .returning(EnvironmentLease.fence)
        .execution_options(synchronize_session=False)
    )
    if held.scalar_one_or_none() is None:
        raise LeaseLost(f"environment {lease.environment_id} has another deployer, or was removed")
