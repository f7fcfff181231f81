"""Writes the running instances of an environment to the database, where the API reads them."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, insert

from control_domain.database.engine import Sessions
from control_domain.tables.runtime import Instance
from deployer.drivers.interface import InstanceStatus
from deployer.environments.crash_loops import record_crash_loops
from deployer.leases import Lease, lock_lease
from deployer.shield import shielded


@shielded
async def write_instances(
    sessions: Sessions, lease: Lease, instances: Sequence[InstanceStatus], now: datetime
) -> bool:
    """Replace the stored instances of the environment by `instances`. Raises `LeaseLost`, and `IntegrityError` if
    the environment was removed.

    Return True if a process crashed lately: the caller must then write the instances again later, even if they do
    not change.
    """
    rows = [
        {
            "environment_id": lease.environment_id,
            **{name: getattr(instance, name) for name in InstanceStatus.__slots__},
        }
        for instance in instances
    ]
    async with sessions() as session, session.begin():
        await lock_lease(session, lease)
        is_crashing = await record_crash_loops(session, lease.environment_id, instances, now)
        await session.execute(delete(Instance).where(Instance.environment_id == lease.environment_id))
        if rows:
            await session.execute(insert(Instance), rows)
    return is_crashing
