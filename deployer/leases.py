"""Leases of environments: of several deployers one carries out what is asked of an environment.

A lease that is not renewed runs out and may be taken by another deployer. Each taking has a higher fence, and every
write names the one under which it is made: a holder that was only slow changes nothing any more. When a lease ends is
written and compared by the database's clock alone: the machines of two deployers may disagree on the time.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import or_, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.database import Sessions, insert_unless_there
from control_api.database_clock import database_now
from control_api.runtime.tables import EnvironmentLease
from deployer.identity import Identity
from deployer.uncut import uncut

LEASE_SECONDS = 15.0
RENEW_SECONDS = 5.0


class LeaseLost(Exception):
    """Another deployer has taken the environment over, or it was removed."""


def _end_of_term() -> float:
    return time.monotonic() + LEASE_SECONDS


@dataclass(slots=True)
class Lease:
    """An environment, and the fence under which it was taken."""

    environment_id: int
    holder: str
    fence: int
    ends_at: float = field(default_factory=_end_of_term, compare=False)
    """By the monotonic clock: until then nobody else can have taken the environment."""


@uncut
async def take_lease(
    sessions: Sessions, identity: Identity, environment_id: int, address: str
) -> Lease | None:
    """Take an environment that nobody has, whose lease has run out, or that an earlier process of this deployer had;
    None where another deployer has it, or it was removed."""
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
            first = {"environment_id": environment_id, "fence": 1, **held}
            made = insert_unless_there(session, EnvironmentLease, first).returning(EnvironmentLease.fence)
            fence = (await session.execute(made)).scalar_one_or_none()
            if fence is None:
                takes = (
                    update(EnvironmentLease)
                    .where(
                        EnvironmentLease.environment_id == environment_id,
                        or_(
                            # By its name as well: two copies of one folder would take it from each other, and each
                            # end what it runs.
                            (EnvironmentLease.holder == identity.id)
                            & (EnvironmentLease.holder_name == identity.name),
                            EnvironmentLease.leased_until < database_now(),
                        ),
                    )
                    .values(fence=EnvironmentLease.fence + 1, **held)
                    .returning(EnvironmentLease.fence)
                    .execution_options(synchronize_session=False)
                )
                fence = (await session.execute(takes)).scalar_one_or_none()
    except IntegrityError:
        return None
    return None if fence is None else Lease(environment_id, identity.id, fence, ends_at)


@uncut
async def renew_leases(sessions: Sessions, leases: Sequence[Lease]) -> set[int]:
    """Keep them for another while; gives the environments whose lease is lost."""
    if not leases:
        return set()
    mine = {lease.environment_id: lease.fence for lease in leases}
    ends_at = _end_of_term()
    async with sessions() as session, session.begin():
        renewed = await session.execute(
            update(EnvironmentLease)
            .where(
                EnvironmentLease.environment_id.in_(mine),
                EnvironmentLease.holder == leases[0].holder,
            )
            .values(leased_until=database_now(LEASE_SECONDS))
            .returning(EnvironmentLease.environment_id, EnvironmentLease.fence)
            .execution_options(synchronize_session=False)
        )
        kept = {number for number, fence in renewed if mine[number] == fence}
    for lease in leases:
        if lease.environment_id in kept:
            lease.ends_at = ends_at
    return set(mine) - kept


@uncut
async def end_leases(sessions: Sessions, leases: Sequence[Lease]) -> None:
    """Let others take the environments at once: this deployer stops, and so does what it runs."""
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


async def hold_lease(session: AsyncSession, lease: Lease, **told: str | None) -> None:
    """Have nobody take the environment over until the end of the transaction, which begins with this; `doing` tells
    what for. Raises `LeaseLost`."""
    mine = (
        EnvironmentLease.environment_id == lease.environment_id,
        EnvironmentLease.holder == lease.holder,
        EnvironmentLease.fence == lease.fence,
    )
    # An update, because SQLite locks nothing when it reads.
    held = await session.execute(
        update(EnvironmentLease)
        .where(*mine)
        .values(fence=lease.fence, **told)
        .returning(EnvironmentLease.fence)
        .execution_options(synchronize_session=False)
    )
    if held.scalar_one_or_none() is None:
        raise LeaseLost(f"environment {lease.environment_id} has another deployer, or was removed")
