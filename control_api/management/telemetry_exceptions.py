"""Groups of exceptions of an environment, with their figures, statuses and assignees."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from analytics_queries.telemetry.exception_groups import GroupKey
from analytics_queries.telemetry.exception_occurrences import (
    OccurrenceKey,
    newest_occurrences,
    occurrence_key,
)
from analytics_queries.telemetry.exception_trends import exception_trends
from control_api.management.telemetry_pages import (
    DAY,
    RangePageQuery,
    RangeQuery,
    Service,
    Step,
    Text,
    TrendSteps,
    read_range_pages,
    read_store,
)
from control_api.operations.access import At, at
from control_api.operations.bodies import json_body
from control_api.operations.pages import PageOf
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.projects.find import DeployTarget, find_environment
from control_domain.telemetry.change_exception import (
    StatusChange,
    apply_change,
    prepare_change,
    read_decisions,
)
from control_domain.telemetry.describe_exceptions import (
    ExceptionDocument,
    ExceptionGroupDetails,
    ExceptionGroupDocument,
    ExceptionSeriesDocument,
    ExceptionStatusDocument,
    describe_exception,
    describe_trend,
)
from control_domain.telemetry.exceptions import (
    GroupFilter,
    GroupPlace,
    list_groups,
    parse_group,
    read_group,
    require_group,
)
from control_domain.telemetry.statuses import Status
from control_domain.telemetry.time_ranges import CLOCK_AHEAD, read_step, trend_step
from pipeline_contracts.errors import Conflict

operations = OperationRouter("Telemetry")

_Read = Annotated[At[DeployTarget], at(find_environment, "environment", "telemetry:read", Right.READ)]
_Deploy = Annotated[At[DeployTarget], at(find_environment, "environment", "deploy:write", Right.DEPLOY)]
_GROUP_KEY = (int, int, int)
_EXCEPTION_KEY = (int, int, str)


class ExceptionQuery(RangePageQuery, kw_only=True):
    """Filters of groups of exceptions."""

    status: Annotated[
        Status | None, Meta(description="The status of groups. Groups that have regressed are open.")
    ] = None
    assignee: Annotated[Text | None, Meta(description="The ID of a person, or `none`.")] = None
    service: Service = None
    steps: TrendSteps = 0


class ExceptionSeriesQuery(RangeQuery, kw_only=True):
    """The time range and its steps."""

    step: Step = None


class UpdateException(Struct, kw_only=True):
    """The status and the assignee to set for a group of exceptions."""

    status: Annotated[
        Status | None, Meta(description="A resolved group is open again once a newer release raises it.")
    ] = None
    assignee: Annotated[
        Text | None | UnsetType,
        Meta(description="The ID of a person in the account; `null` removes the assignee."),
    ] = UNSET


def settings_of(document: ExceptionStatusDocument | ExceptionGroupDetails) -> dict[str, Any]:
    """Return the settings that `ETag` identifies."""
    assignee = document["assignee"]
    return {"status": document["status"], "assignee": assignee["id"] if assignee is not None else None}


@operations.get("/v1/environments/{environment}/exceptions")
async def list_exceptions(
    at: _Read, page: Annotated[ExceptionQuery, query(ExceptionQuery)]
) -> PageOf[ExceptionGroupDocument]:
    """List groups of exceptions.

    Groups that were seen in the time range, by default the last day, the last seen first. Exceptions are telemetry
    events of that type, span events of that name, and log records with `exception.type`; an exception that was
    reported as a span event and as a log record counts once. Exceptions that arrive between two requests do not move
    groups to other pages.
    """
    pages = read_range_pages(at, page, f"exceptions of {at.found.environment.public_id}", _GROUP_KEY, DAY)
    place = None
    if pages.after is not None:
        snapshot, last_seen, group = map(int, pages.after)
        place = GroupPlace(snapshot, GroupKey(last_seen, group))
    filters = GroupFilter(page.status, page.assignee or "", page.service or "")
    decisions = await read_decisions(at.session, at.account, at.found.environment)
    store = at.column_store
    step_s = trend_step(pages.within, page.steps) if page.steps else 0
    documents, following = await read_store(
        at, lambda: list_groups(store, decisions, pages.within, filters, place, pages.limit, step_s)
    )
    last = None
    if following is not None and following.after is not None:
        last = (following.snapshot_ms, *following.after)
    return pages.answer(documents, last)


@operations.get("/v1/environments/{environment}/exceptions/{group}", etag=settings_of)
async def read_exception(at: _Read, asked: Annotated[RangeQuery, query(RangeQuery)]) -> ExceptionGroupDetails:
    """Read a group of exceptions.

    Includes the stack of its last exception, and its figures in the time range, by default the last day.
    """
    group = parse_group(at.text("group"))
    within = asked.read(DAY, at.now, ahead=CLOCK_AHEAD)
    decisions = await read_decisions(at.session, at.account, at.found.environment)
    store = at.column_store
    return await read_store(at, lambda: read_group(store, decisions, group, within))


@operations.patch("/v1/environments/{environment}/exceptions/{group}", etag=settings_of, problems=[Conflict])
async def update_exception(
    at: _Deploy, body: Annotated[UpdateException, json_body(UpdateException)]
) -> ExceptionStatusDocument:
    """Resolve, ignore, open or assign a group of exceptions.

    A resolved group is open again once a newer release raises it. An ignored group stays ignored.
    """
    group = parse_group(at.text("group"))
    change = StatusChange(body.status, body.assignee)
    decisions = await read_decisions(at.session, at.account, at.found.environment)
    store = at.column_store
    prepared = await read_store(at, lambda: prepare_change(store, decisions, group))
    return await apply_change(
        at.session, at.account, at.found, prepared, change, at.actor, at.now, at.check_if_match
    )


@operations.get("/v1/environments/{environment}/exceptions/{group}/series")
async def read_exception_series(
    at: _Read, asked: Annotated[ExceptionSeriesQuery, query(ExceptionSeriesQuery)]
) -> ExceptionSeriesDocument:
    """Count the exceptions of a group over time.

    The numbers are those of each step of the time range, by default the last day.
    """
    group = parse_group(at.text("group"))
    within = asked.read(DAY, at.now, ahead=CLOCK_AHEAD)
    step_s = read_step(asked.step, within) // 1000
    store, environment = at.column_store, at.found.environment.public_id

    async def read() -> Sequence[tuple[int, int]]:
        await require_group(store, environment, group)
        return (await exception_trends(store, environment, within, [group], step_s))[group]

    return {"step_seconds": step_s, "points": describe_trend(await read_store(at, read), step_s)}


@operations.get("/v1/environments/{environment}/exceptions/{group}/events")
async def list_exception_events(
    at: _Read, page: Annotated[RangePageQuery, query(RangePageQuery)]
) -> PageOf[ExceptionDocument]:
    """List the exceptions of a group.

    The exceptions in the time range, by default the last day, the newest first. An exception that was reported as a
    span event and as a log record is listed twice.
    """
    group = parse_group(at.text("group"))
    name = f"exceptions {at.text('group')} of {at.found.environment.public_id}"
    pages = read_range_pages(at, page, name, _EXCEPTION_KEY, DAY)
    after = None
    if pages.after is not None:
        time_ns, identity, source = pages.after
        after = OccurrenceKey(int(time_ns), int(identity), str(source))
    store, environment = at.column_store, at.found.environment.public_id

    async def read() -> list[dict[str, Any]]:
        await require_group(store, environment, group)
        return await newest_occurrences(store, environment, group, pages.within, after, pages.limit + 1)

    rows = await read_store(at, read)
    shown = rows[: pages.limit]
    last = occurrence_key(shown[-1]) if len(rows) > pages.limit else None
    return pages.answer([describe_exception(row) for row in shown], last)
