"""A migrated database with heartbeats and queues, and the states that the consumers write into it."""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import insert, text
from sqlalchemy.ext.asyncio import AsyncEngine

from control_domain.database.changes import Changes, count_change
from control_domain.database.engine import open_sessions
from control_domain.tables.monitors import Heartbeat, HeartbeatState, Queue
from storage_backends.monitor_states.interface import MonitorStates
from storage_backends.monitor_states.postgres import open_postgres_monitor_states
from storage_backends.monitor_states.sqlite import open_sqlite_monitor_states
from tests.support.accounts import make_acme, migrated

# A Friday in January 2083, 08:00 UTC: the real clock must not overtake the tests' clock.
T0 = 3_567_225_600_000
MINUTE = 60_000
HOUR = 60 * MINUTE


@dataclass(slots=True)
class Monitored:
    """The monitor states under test, and their database."""

    states: MonitorStates
    engine: AsyncEngine
    environment_id: str
    _environment: int
    changes: Changes
    """Signalled after alert events were written."""

    async def add_heartbeats(self, count: int, **changes: Any) -> list[int]:
        """Add hourly heartbeats with 5 minutes of grace and 30 of run time; return their IDs."""
        settings = {
            "period_seconds": 3600,
            "cron": None,
            "timezone": "UTC",
            "grace_seconds": 300,
            "max_runtime_seconds": 1800,
            "failures_before_down": 1,
            "paused": False,
            **changes,
        }
        now = datetime.now(UTC)
        async with open_sessions(self.engine)() as session, session.begin():
            heartbeat = {"environment_id": self._environment, "created_at": now, **settings}
            # Bulk statements: ten thousand ORM objects took most of a test's time.
            found = await session.scalars(
                insert(Heartbeat).returning(Heartbeat.id, sort_by_parameter_order=True),
                [{"name": f"job {n}", **heartbeat} for n in range(count)],
            )
            ids = list(found)
            state = {"state": "new", "since_ms": T0, "failures_in_row": 0, "open_runs": 0, "version": 0}
            await session.execute(
                insert(HeartbeatState), [{**state, "heartbeat_id": number} for number in ids]
            )
            return ids

    async def add_queue(self) -> int:
        """Add a queue; return its ID."""
        async with open_sessions(self.engine)() as session, session.begin():
            queue = Queue(environment_id=self._environment, name="default", created_at=datetime.now(UTC))
            session.add(queue)
            await session.flush()
            return queue.id

    async def rows(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a query on another connection."""
        async with self.engine.connect() as connection:
            return [dict(row) for row in (await connection.execute(text(sql))).mappings()]

    async def execute(self, sql: str) -> None:
        """Run a statement on another connection."""
        async with self.engine.begin() as connection:
            await connection.execute(text(sql))

    async def state_of(self, heartbeat: int) -> dict[str, Any]:
        (row,) = await self.rows(f"SELECT * FROM heartbeat_states WHERE heartbeat_id = {heartbeat}")
        return row


@contextlib.asynccontextmanager
async def open_monitored(url: str) -> AsyncIterator[Monitored]:
    """Migrate an empty database of either kind; yield the monitor states in it."""
    async with migrated(url) as engine:
        sessions = open_sessions(engine)
        async with sessions() as session, session.begin():
            environment = (await make_acme(session, datetime.now(UTC))).environment
        states = await open_states(url, partial(count_change, sessions))
        try:
            yield Monitored(states, engine, environment.public_id, environment.id, Changes(sessions))
        finally:
            await states.close()


async def open_states(url: str, on_alerts: Callable[[], object] = lambda: None) -> MonitorStates:
    """Open the monitor states of a database."""
    if url.startswith("sqlite"):
        return await open_sqlite_monitor_states(Path(url.partition(":///")[2]), on_alerts)
    return await open_postgres_monitor_states(url)
