"""The newest runs of several heartbeats, for lists."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased, defer

from control_domain.monitors.listing import ListedRun
from control_domain.tables.monitors import Heartbeat, HeartbeatRun

MAX_RECENT_RUNS = 60


async def list_recent_runs(
    session: AsyncSession, heartbeats: Sequence[Heartbeat], count: int
) -> Mapping[int, Sequence[ListedRun]]:
    """Return up to `count` runs of each heartbeat, the newest first, by the ID of the heartbeat.

    One query for all, which reads the index of each heartbeat up to its run number `count`.
    """
    if not heartbeats or count == 0:
        return {}
    counted = aliased(HeartbeatRun)
    # Account scope: the caller passes heartbeats of the account.
    oldest = (
        select(counted.first_ms)
        .where(counted.heartbeat_id == Heartbeat.id)
        .order_by(counted.first_ms.desc())
        .limit(1)
        .offset(count - 1)
        .scalar_subquery()
    )
    query = (
        select(HeartbeatRun, HeartbeatRun.output.is_not(None))
        .join(Heartbeat, Heartbeat.id == HeartbeatRun.heartbeat_id)
        .where(
            Heartbeat.id.in_([each.id for each in heartbeats]),
            HeartbeatRun.first_ms >= func.coalesce(oldest, 0),
        )
        # Outputs have up to 10 KiB each.
        .options(defer(HeartbeatRun.output))
        .order_by(HeartbeatRun.heartbeat_id, HeartbeatRun.first_ms.desc(), HeartbeatRun.run_id)
    )
    found: dict[int, list[ListedRun]] = defaultdict(list)
    for row in await session.execute(query):
        runs = found[row[0].heartbeat_id]
        # Several runs may have begun in the millisecond of the last one.
        if len(runs) < count:
            runs.append(ListedRun(*row))
    return found
