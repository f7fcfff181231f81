"""Lists heartbeats and queues of an account, runs of a heartbeat and workers of a queue, page by page."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, and_, case, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import sees_all_projects
from control_domain.monitors.find import (
    FoundHeartbeat,
    FoundQueue,
    select_heartbeats,
    select_queues,
)
from control_domain.monitors.operations import applied_through_ms
from control_domain.paging import Page
from control_domain.tables.monitors import Heartbeat, HeartbeatRun, HeartbeatState, Queue, QueueWorker
from control_domain.tables.projects import Environment, Project, ProjectRole
from pipeline_contracts import topics
from pipeline_contracts.errors import NotFound
from pipeline_contracts.times import to_epoch_ms

LOST_MS = 5 * 60_000
"""A worker without a report for this long is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorFilters:
    """Conditions on the listed monitors; None matches every monitor."""

    project: Project | None = None
    environment: Environment | None = None
    name: str | None = None
    search: str | None = None
    """A part of the name, in any case."""
    state: str | None = None
    """Of heartbeats only."""


async def list_heartbeats(
    session: AsyncSession, caller: Caller, filters: MonitorFilters, page: Page
) -> tuple[Sequence[FoundHeartbeat], bool]:
    """Return a page of the heartbeats in projects that the caller may read, newest first, and whether more follow."""
    conditions = [*_in_projects_of(caller), *_matches(Heartbeat, filters)]
    if filters.state is not None:
        conditions.append(HeartbeatState.state == filters.state)
    if page.before is not None:
        conditions.append(Heartbeat.id < page.before)
    query = select_heartbeats(caller.account.id).where(*conditions)
    rows = (await session.execute(query.order_by(Heartbeat.id.desc()).limit(page.limit + 1))).all()
    return [FoundHeartbeat(*row) for row in rows[: page.limit]], len(rows) > page.limit


async def list_queues(
    session: AsyncSession, caller: Caller, filters: MonitorFilters, page: Page
) -> tuple[Sequence[FoundQueue], bool]:
    """Return a page of the queues, as `list_heartbeats` does."""
    conditions = [*_in_projects_of(caller), *_matches(Queue, filters)]
    if page.before is not None:
        conditions.append(Queue.id < page.before)
    query = select_queues(caller.account.id).where(*conditions)
    rows = (await session.execute(query.order_by(Queue.id.desc()).limit(page.limit + 1))).all()
    return [FoundQueue(*row) for row in rows[: page.limit]], len(rows) > page.limit


def _in_projects_of(caller: Caller) -> Sequence[ColumnElement[bool]]:
    if sees_all_projects(caller.role):
        return ()
    # Account scope: the queries that this is a part of are bound to the account.
    own = select(ProjectRole.project_id).where(ProjectRole.person_id == caller.person.id)
    return (Project.id.in_(own),)


def _matches(table: type[Heartbeat] | type[Queue], filters: MonitorFilters) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if filters.project is not None:
        conditions.append(Project.id == filters.project.id)
    if filters.environment is not None:
        conditions.append(Environment.id == filters.environment.id)
    if filters.name is not None:
        conditions.append(table.name == filters.name)
    if filters.search is not None:
        conditions.append(table.name.icontains(filters.search, autoescape=True))
    return conditions


class RunKey(NamedTuple):
    """The place of a run in its list: newest first, and by ID among runs of the same millisecond."""

    first_ms: int
    run_id: str

    def __str__(self) -> str:
        return f"{self.first_ms} {self.run_id}"

    @classmethod
    def read(cls, text: str) -> "RunKey":
        """Read the text that `str` has written."""
        first_ms, _, run_id = text.partition(" ")
        return cls(int(first_ms), run_id)


class ListedRun(NamedTuple):
    """A run without its output."""

    run: HeartbeatRun
    has_output: bool

    @property
    def key(self) -> RunKey:
        return RunKey(self.run.first_ms, self.run.run_id)


async def list_runs(
    session: AsyncSession, heartbeat: Heartbeat, limit: int, after: RunKey | None
) -> tuple[Sequence[ListedRun], bool]:
    """Return a page of the runs, newest first, and whether more follow. `after`: the last run of the page before."""
    query = (
        select(HeartbeatRun, HeartbeatRun.output.is_not(None))
        .where(HeartbeatRun.heartbeat_id == heartbeat.id)
        # Outputs have up to 10 KiB each.
        .options(defer(HeartbeatRun.output))
        .order_by(HeartbeatRun.first_ms.desc(), HeartbeatRun.run_id)
        .limit(limit + 1)
    )
    if after is not None:
        query = query.where(
            # The next condition implies this one, which lets the index find the beginning of the page.
            HeartbeatRun.first_ms <= after.first_ms,
            or_(
                HeartbeatRun.first_ms < after.first_ms,
                and_(HeartbeatRun.first_ms == after.first_ms, HeartbeatRun.run_id > after.run_id),
            ),
        )
    rows = (await session.execute(query)).all()
    return [ListedRun(*row) for row in rows[:limit]], len(rows) > limit


async def find_run(session: AsyncSession, heartbeat: Heartbeat, run_id: str) -> HeartbeatRun:
    """Return the run with its output. Raises `NotFound`."""
    query = select(HeartbeatRun).where(
        HeartbeatRun.heartbeat_id == heartbeat.id, HeartbeatRun.run_id == run_id
    )
    run = (await session.execute(query)).scalar_one_or_none()
    if run is None:
        raise NotFound("The heartbeat has no such run. Runs are removed after 7 days.")
    return run


async def list_workers(
    session: AsyncSession, queue: Queue, limit: int, after: str | None
) -> tuple[Sequence[QueueWorker], bool]:
    """Return a page of the workers by ID, and whether more follow. `after`: the last ID of the page before."""
    query = select(QueueWorker).where(QueueWorker.queue_id == queue.id)
    if after is not None:
        query = query.where(QueueWorker.worker_id > after)
    rows = (await session.execute(query.order_by(QueueWorker.worker_id).limit(limit + 1))).scalars().all()
    return rows[:limit], len(rows) > limit


async def count_workers(
    session: AsyncSession, queues: Sequence[Queue], clock_ms: int
) -> Mapping[int, Mapping[str, int]]:
    """Return the number of workers by status, by the ID of the queue. `clock_ms`: see `read_queue_clock`."""
    is_lost = and_(QueueWorker.status != "stopped", QueueWorker.received_ms <= clock_ms - LOST_MS)
    status = case((is_lost, "lost"), else_=QueueWorker.status).label("present_status")
    query = (
        select(QueueWorker.queue_id, status, func.count())
        .where(QueueWorker.queue_id.in_([queue.id for queue in queues]))
        .group_by(QueueWorker.queue_id, status)
    )
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    for queue_id, present_status, count in await session.execute(query):
        counts[queue_id][present_status] = count
    return counts


async def read_queue_clock(session: AsyncSession, now: datetime) -> int:
    """Return the time up to which reports of workers are known, in milliseconds since 1970.

    That is `now`, or an earlier time up to which reports are applied, so that a backlog of the pipeline does not make
    workers appear lost.
    """
    applied_ms = await applied_through_ms(session, topics.QUEUES)
    now_ms = to_epoch_ms(now)
    return now_ms if applied_ms is None else min(now_ms, applied_ms)
