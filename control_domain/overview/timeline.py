"""Deployments, incidents, exceptions, failed runs of heartbeats and visits on one time axis."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, TypedDict

from msgspec import Meta
from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from analytics_queries.overview.timeline import Steps, VisitCounts
from analytics_queries.telemetry.time_range import SECOND_NS, TimeRange
from control_domain.accounts.operations import Caller
from control_domain.notifications.kinds import TEST_KIND
from control_domain.notifications.visibility import in_projects_of
from control_domain.overview.markers import DeploymentMarker
from control_domain.projects.find import in_visible_projects
from control_domain.tables.monitors import IS_FAILED_RUN, Heartbeat, HeartbeatRun
from control_domain.tables.notifications import AlertIncident
from control_domain.tables.projects import Environment, Project
from pipeline_contracts.times import format_time

MAX_BUCKETS = 500
_STEP_SECONDS = (
    10,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    10_800,
    21_600,
    43_200,
    86_400,
    172_800,
    604_800,
)
_MAX_INCIDENTS = 20_000


class TimelineDocument(TypedDict):
    """The figures of each bucket of a time range. A list is null if the token lacks the scope to read it."""

    step_seconds: Annotated[int, Meta(description="The length of a bucket.")]
    times: Annotated[list[str], Meta(description="When each bucket begins, in UTC.")]
    deployments: Annotated[
        list[DeploymentMarker] | None, Meta(description="The 500 newest deployments, in ascending order.")
    ]
    incidents_started: list[int] | None
    incidents_resolved: list[int] | None
    heartbeat_failures: Annotated[
        list[int] | None,
        Meta(
            description="Runs that failed or took too long, by the time of their first signal; for the last 7 days."
        ),
    ]
    exceptions: list[int] | None
    visitors: Annotated[
        list[int] | None,
        Meta(description="A visitor who is present in several buckets is counted in each of them."),
    ]
    page_views: list[int] | None


def choose_steps(within: TimeRange, buckets: int) -> Steps:
    """Return at most `buckets` steps of round lengths, such as 15 minutes, that cover the range."""
    begin_s, end_s = within.start // SECOND_NS, -(-within.end // SECOND_NS)
    for step in _STEP_SECONDS:
        first = begin_s // step * step
        count = -(-(end_s - first) // step)
        if count <= buckets or step == _STEP_SECONDS[-1]:
            return Steps(first, step, count)
    raise AssertionError


def times_of(steps: Steps) -> list[str]:
    """Return when each step begins."""
    return [format_time(_at(steps.begin_s + number * steps.step_s)) for number in range(steps.count)]


def _at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def fill(steps: Steps, counts: Mapping[int, int]) -> list[int]:
    """Return the count of each step."""
    return [counts.get(number, 0) for number in range(steps.count)]


def fill_visits(steps: Steps, counts: Mapping[int, VisitCounts]) -> tuple[list[int], list[int]]:
    """Return the visitors and the page views of each step."""
    none = VisitCounts(0, 0)
    filled = [counts.get(number, none) for number in range(steps.count)]
    return [each.visitors for each in filled], [each.views for each in filled]


async def count_incidents(
    session: AsyncSession, caller: Caller, steps: Steps, project_id: int | None
) -> tuple[list[int], list[int]]:
    """Return how many incidents started and how many ended in each step; events without an end do not count."""
    begin, end = _at(steps.begin_s), _at(steps.end_s)
    counted: list[list[int]] = []
    for time in (AlertIncident.started_at, AlertIncident.resolved_at):
        query = (
            select(time)
            .where(
                AlertIncident.account_id == caller.account.id,
                time >= begin,
                time < end,
                AlertIncident.kind != TEST_KIND,
                AlertIncident.state != "info",
                *in_projects_of(caller, AlertIncident.project_id),
            )
            .order_by(time.desc())
            .limit(_MAX_INCIDENTS)
        )
        if project_id is not None:
            query = query.where(AlertIncident.project_id == project_id)
        found = (await session.execute(query)).scalars()
        counted.append(_count(steps, (at.timestamp() for at in found if at is not None)))
    return counted[0], counted[1]


async def count_failed_runs(
    session: AsyncSession, caller: Caller, steps: Steps, project_id: int | None
) -> list[int]:
    """Return how many runs of heartbeats failed, or took too long, in each step."""
    # Account scope: `in_visible_projects` is bound to the account.
    heartbeats = (
        select(Heartbeat.id)
        .join(Environment, Environment.id == Heartbeat.environment_id)
        .join(Project, Project.id == Environment.project_id)
        .where(*in_visible_projects(caller))
    )
    if project_id is not None:
        heartbeats = heartbeats.where(Project.id == project_id)
    # On both databases, dividing whole numbers truncates.
    step = ((HeartbeatRun.first_ms - steps.begin_s * 1000) // (steps.step_s * 1000)).label("step")
    query = (
        select(step, func.count())
        .where(
            # The same text as in the partial index, so that the database reads only the failed runs of these
            # heartbeats.
            text(f"({IS_FAILED_RUN})"),
            HeartbeatRun.heartbeat_id.in_(heartbeats),
            HeartbeatRun.first_ms >= steps.begin_s * 1000,
            HeartbeatRun.first_ms < steps.end_s * 1000,
        )
        .group_by(step)
    )
    return fill(steps, {int(number): int(count) for number, count in await session.execute(query)})


def _count(steps: Steps, times: Iterable[float]) -> list[int]:
    counts = [0] * steps.count
    for at in times:
        number = steps.number_of(at)
        if number is not None:
            counts[number] += 1
    return counts
