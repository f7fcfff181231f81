"""The timeline, and deployments as markers on charts."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any

from msgspec import Meta

from analytics_queries.overview.timeline import Steps, VisitCounts, count_exceptions, count_visits
from analytics_queries.telemetry.limited_sql import run_together
from analytics_queries.telemetry.time_range import from_nanoseconds
from control_api.management.telemetry_pages import DAY, Duration, RangeQuery, read_store
from control_api.operations.access import At, at, at_account
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.overview import timeline
from control_domain.overview.markers import DeploymentMarker, list_markers
from control_domain.overview.timeline import MAX_BUCKETS, TimelineDocument
from control_domain.overview.visible import Visible, only_environment, read_visible
from control_domain.projects.find import DeployTarget, find_environment, find_project
from control_domain.tables.accounts import Account
from control_domain.tables.projects import Project
from pipeline_contracts.errors import DeployNotAllowed, NotFound

operations = OperationRouter("Overview")

_Account = Annotated[At[Account], at_account("account:read")]
_ReadProject = Annotated[At[Project], at(find_project, "project", "deploy:read", Right.READ)]
_ReadEnvironment = Annotated[At[DeployTarget], at(find_environment, "environment", "deploy:read", Right.READ)]

# Unlike telemetry, deployments are kept, and reports on sites go back for years.
_LONGEST_MARKED = timedelta(days=5 * 366)


class TimelineQuery(RangeQuery, kw_only=True):
    """The time range, the number of buckets, and the project."""

    buckets: Annotated[
        int,
        Meta(
            ge=1, le=MAX_BUCKETS, description="The largest number of buckets into which the range is divided."
        ),
    ] = 60
    project: Annotated[str | None, Meta(description="Only the project with this ID or number.")] = None


class MarkerQuery(RangeQuery, kw_only=True):
    """The time range of deployments, up to five years."""

    since: Annotated[
        Duration | None,
        Meta(
            description="The length of a range up to now in seconds, minutes, hours, days or weeks, "
            "instead of `from` and `to`."
        ),
    ] = None


@operations.get("/v1/overview/timeline", problems=[NotFound, DeployNotAllowed])
async def read_timeline(
    at: _Account, asked: Annotated[TimelineQuery, query(TimelineQuery)]
) -> TimelineDocument:
    """Read the timeline.

    Deployments, incidents, exceptions, failed runs of heartbeats, visitors and page views of all projects that you may
    read, in buckets of the time range, by default the last day. Figures that the scopes of the token do not allow are
    null.
    """
    within = asked.read(DAY, at.now)
    steps = timeline.choose_steps(within, asked.buckets)
    project_id = None
    if asked.project is not None:
        project_id = (await find_project(at.session, at.caller, asked.project, Right.READ)).id
    visible = await read_visible(at.session, at.caller, project_id)
    scopes, session, caller = at.caller.scopes, at.session, at.caller
    markers = started = resolved = failures = None
    if "deploy:read" in scopes:
        begin, end = from_nanoseconds(within.start), from_nanoseconds(within.end)
        markers = [*await list_markers(session, at.account.id, visible, [*visible.environments], begin, end)]
    if "notifications:read" in scopes:
        started, resolved = await timeline.count_incidents(session, caller, steps, project_id)
    if "monitoring:read" in scopes:
        failures = await timeline.count_failed_runs(session, caller, steps, project_id)
    exceptions, visits = await _count_stored(at, visible, steps)
    visitors, views = (None, None) if visits is None else timeline.fill_visits(steps, visits)
    return {
        "step_seconds": steps.step_s,
        "times": timeline.times_of(steps),
        "deployments": markers,
        "incidents_started": started,
        "incidents_resolved": resolved,
        "heartbeat_failures": failures,
        "exceptions": None if exceptions is None else timeline.fill(steps, exceptions),
        "visitors": visitors,
        "page_views": views,
    }


async def _count_stored(
    at: At[Account], visible: Visible, steps: Steps
) -> tuple[Mapping[int, int] | None, Mapping[int, VisitCounts] | None]:
    """Return exceptions and visits by step, as far as the scopes allow."""
    store, scopes = at.column_store, at.caller.scopes

    exceptions: Mapping[int, int] | None = None
    visits: Mapping[int, VisitCounts] | None = None

    async def read_exceptions() -> None:
        nonlocal exceptions
        if "telemetry:read" in scopes:
            exceptions = await count_exceptions(store, visible.environment_ids, steps)

    async def read_visits() -> None:
        nonlocal visits
        if "analytics:read" in scopes:
            visits = await count_visits(store, [site.id for site in visible.sites], steps)

    async def read() -> tuple[Mapping[int, int] | None, Mapping[int, VisitCounts] | None]:
        await run_together(read_exceptions(), read_visits())
        return exceptions, visits

    return await read_store(at, read)


@operations.get("/v1/environments/{environment}/deployment-markers")
async def list_deployment_markers(
    at: _ReadEnvironment, asked: Annotated[MarkerQuery, query(MarkerQuery)]
) -> list[DeploymentMarker]:
    """List deployments as markers on charts.

    The deployments that went live or failed in the time range, by default the last day, in ascending order:
    deployments by Pharos, and those that were reported with `POST /v1/deployments`. Only the 500 newest ones are
    listed.
    """
    environment, project = at.found
    return await _list_markers(at, only_environment(environment, project), asked)


@operations.get("/v1/projects/{project}/deployment-markers")
async def list_deployment_markers_of_project(
    at: _ReadProject, asked: Annotated[MarkerQuery, query(MarkerQuery)]
) -> list[DeploymentMarker]:
    """List the deployments of all environments of a project as markers on charts.

    Like `GET /v1/environments/{environment}/deployment-markers`.
    """
    return await _list_markers(at, await read_visible(at.session, at.caller, at.found.id), asked)


async def _list_markers(at: At[Any], visible: Visible, asked: MarkerQuery) -> list[DeploymentMarker]:
    within = asked.read(DAY, at.now, longest=_LONGEST_MARKED)
    begin, end = from_nanoseconds(within.start), from_nanoseconds(within.end)
    return [*await list_markers(at.session, at.account.id, visible, [*visible.environments], begin, end)]
