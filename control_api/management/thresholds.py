"""Thresholds on figures of environments: `/v1/thresholds`."""

from dataclasses import replace
from typing import Annotated, Any, Literal, TypedDict, cast

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from control_api.operations.access import At, at, at_account
from control_api.operations.bodies import json_body
from control_api.operations.pages import PageOf, PageQuery, read_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import Right
from control_domain.notifications import thresholds
from control_domain.notifications.threshold_settings import (
    DEFAULT_PENDING_SECONDS,
    DEFAULT_WINDOW_SECONDS,
    MAX_PENDING_SECONDS,
    MAX_TARGET_LENGTH,
    MAX_VALUE,
    MAX_WINDOW_SECONDS,
    MIN_WINDOW_SECONDS,
    Aggregation,
    Direction,
    ThresholdKind,
    ThresholdSettings,
    read_threshold_settings,
)
from control_domain.notifications.thresholds import FoundThreshold, find_threshold, lock_threshold
from control_domain.projects.describe import (
    EnvironmentSummary,
    ProjectSummary,
    summarize_environment,
    summarize_project,
)
from control_domain.projects.find import DeployTarget, find_environment, find_project
from control_domain.slugs import MAX_NAME_LENGTH
from control_domain.tables.accounts import Account
from pipeline_contracts.alert_kinds import Severity
from pipeline_contracts.errors import Conflict, DeployNotAllowed, NameTaken, NotFound
from pipeline_contracts.times import format_time

operations = OperationRouter("Notifications")

_List = Annotated[At[Account], at_account("notifications:read")]
_InEnvironment = Annotated[
    At[DeployTarget], at(find_environment, "environment", "notifications:read", Right.READ)
]
_Create = Annotated[
    At[DeployTarget], at(find_environment, "environment", "notifications:write", Right.MANAGE)
]
_Read = Annotated[At[FoundThreshold], at(find_threshold, "threshold", "notifications:read", Right.READ)]
_Change = Annotated[At[FoundThreshold], at(find_threshold, "threshold", "notifications:write", Right.MANAGE)]

_Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_NAME_LENGTH,
        description="1 to 100 printable characters; unique in the environment.",
        examples=["Checkout is slow"],
    ),
]
_Target = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_TARGET_LENGTH,
        description="The name of the queue, the service or the metric.",
        examples=["web"],
    ),
]
_Service = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_TARGET_LENGTH,
        description="For a metric: the only service whose values count.",
    ),
]
_Value = Annotated[
    float,
    Meta(
        ge=-MAX_VALUE,
        le=MAX_VALUE,
        description="The value beyond which the incident opens: seconds for `queue.wait`, jobs for `queue.size`, "
        "percent for `service.error_rate`, milliseconds (p95) for `service.latency`, and the unit of the metric.",
        examples=[5],
    ),
]
_Recovery = Annotated[
    float,
    Meta(
        ge=-MAX_VALUE,
        le=MAX_VALUE,
        description="The value at which the incident ends, not beyond the threshold; by default the threshold.",
    ),
]
_Window = Annotated[
    int,
    Meta(
        ge=MIN_WINDOW_SECONDS,
        le=MAX_WINDOW_SECONDS,
        description="The seconds over which the value is taken.",
    ),
]
_Pending = Annotated[
    int,
    Meta(
        ge=0,
        le=MAX_PENDING_SECONDS,
        description="How many seconds the value must be beyond the threshold before the incident opens.",
    ),
]


_Kind = Annotated[ThresholdKind, Meta(description="What is measured.")]
_Aggregation = Annotated[
    Aggregation, Meta(description="For a metric: the aggregation of its values in the window.")
]
_Direction = Annotated[Direction, Meta(description="The side of the threshold on which it fires.")]
_Enabled = Annotated[bool, Meta(description="False if the threshold is not evaluated.")]


class ThresholdDocument(TypedDict):
    """A threshold on a figure, with the result of its last evaluation."""

    id: int
    name: str
    project: ProjectSummary
    environment: EnvironmentSummary
    kind: ThresholdKind
    target: str
    service: str | None
    aggregation: Aggregation
    direction: Direction
    threshold: float
    recovery: float
    window_seconds: int
    pending_seconds: int
    severity: Severity
    enabled: bool
    phase: Annotated[
        Literal["ok", "pending", "firing"] | None,
        Meta(description="Null before the first evaluation, and if the queue does not exist."),
    ]
    value: Annotated[float | None, Meta(description="The last value; null without data.")]
    evaluated_at: str | None
    created_at: str


class CreateThreshold(Struct, kw_only=True):
    """A new threshold."""

    name: _Name
    kind: _Kind
    target: _Target
    service: _Service | None = None
    aggregation: _Aggregation = "avg"
    direction: _Direction = "above"
    threshold: _Value
    recovery: _Recovery | None = None
    window_seconds: _Window = DEFAULT_WINDOW_SECONDS
    pending_seconds: _Pending = DEFAULT_PENDING_SECONDS
    severity: Annotated[Severity | None, Meta(description="By default the severity of the kind.")] = None
    enabled: _Enabled = True


class UpdateThreshold(Struct, kw_only=True):
    """The fields of a threshold that change."""

    name: _Name | None = None
    kind: _Kind | None = None
    target: _Target | None = None
    service: Annotated[_Service | None | UnsetType, Meta(description="Null for all services.")] = UNSET
    aggregation: _Aggregation | None = None
    direction: _Direction | None = None
    threshold: _Value | None = None
    recovery: Annotated[_Recovery | None | UnsetType, Meta(description="Null: the threshold.")] = UNSET
    window_seconds: _Window | None = None
    pending_seconds: _Pending | None = None
    severity: Annotated[Severity | None, Meta(description="The severity of its incidents.")] = None
    enabled: _Enabled | None = None


class ThresholdQuery(PageQuery, kw_only=True):
    """The page and the filters of the list of thresholds."""

    project: Annotated[
        str | None, Meta(description="Only thresholds of the project with this ID or number.")
    ] = None
    environment: Annotated[
        str | None, Meta(description="Only thresholds of the environment with this ID or number.")
    ] = None


def _settings(document: ThresholdDocument) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name in UpdateThreshold.__struct_fields__}


def _describe(found: FoundThreshold) -> ThresholdDocument:
    row, state = found.threshold, found.state
    return {
        "id": row.id,
        "name": row.name,
        "project": summarize_project(found.project),
        "environment": summarize_environment(found.environment),
        "kind": cast(Any, row.kind),
        "target": row.target,
        "service": row.service,
        "aggregation": cast(Any, row.aggregation),
        "direction": "above" if row.is_above else "below",
        "threshold": row.threshold,
        "recovery": row.recovery,
        "window_seconds": row.window_seconds,
        "pending_seconds": row.pending_seconds,
        "severity": cast(Any, row.severity),
        "enabled": row.enabled,
        "phase": None if state is None else cast(Any, state.phase),
        "value": None if state is None else state.value,
        "evaluated_at": None if state is None else format_time(state.evaluated_at),
        "created_at": format_time(row.created_at),
    }


@operations.get("/v1/thresholds", problems=[NotFound, DeployNotAllowed])
async def list_thresholds(
    at: _List, params: Annotated[ThresholdQuery, query(ThresholdQuery)]
) -> PageOf[ThresholdDocument]:
    """List thresholds.

    The thresholds of all projects in which you have a role, the newest first.
    """
    pages = read_pages(at, params, "thresholds")
    project = environment = None
    if params.project is not None:
        project = await find_project(at.session, at.caller, params.project, Right.READ)
    if params.environment is not None:
        target = await find_environment(at.session, at.caller, params.environment, Right.READ)
        environment = target.environment
    found, has_more = await thresholds.list_thresholds(
        at.session, at.caller, project, environment, pages.page
    )
    return pages.answer([_describe(each) for each in found], found[-1].threshold.id if has_more else None)


@operations.get("/v1/environments/{environment}/thresholds")
async def list_environment_thresholds(
    at: _InEnvironment, params: Annotated[PageQuery, query(PageQuery)]
) -> PageOf[ThresholdDocument]:
    """List the thresholds of an environment.

    The newest first.
    """
    environment = at.found.environment
    pages = read_pages(at, params, f"thresholds of environment {environment.id}")
    found, has_more = await thresholds.list_thresholds(
        at.session, at.caller, at.found.project, environment, pages.page
    )
    return pages.answer([_describe(each) for each in found], found[-1].threshold.id if has_more else None)


@operations.post("/v1/environments/{environment}/thresholds", status=201, problems=[NameTaken, Conflict])
async def create_threshold(
    at: _Create, body: Annotated[CreateThreshold, json_body(CreateThreshold)]
) -> ThresholdDocument:
    """Create a threshold in an environment.

    It is evaluated at the next scan. Missing data and errors neither open nor end its incident. An account has up to
    500 thresholds.
    """
    settings = ThresholdSettings(**structs.asdict(body))
    found = await thresholds.add_threshold(at.session, at.found, settings, at.actor, at.now)
    return _describe(found)


@operations.get("/v1/thresholds/{threshold}", etag=_settings)
async def read_threshold(at: _Read) -> ThresholdDocument:
    """Read a threshold."""
    return _describe(at.found)


@operations.patch("/v1/thresholds/{threshold}", etag=_settings, problems=[NameTaken])
async def update_threshold(
    at: _Change, body: Annotated[UpdateThreshold, json_body(UpdateThreshold)]
) -> ThresholdDocument:
    """Change a threshold.

    Its incident ends if the threshold is turned off or measures another figure from now on.
    """
    await lock_threshold(at.session, at.found)
    at.check_if_match(_settings(_describe(at.found)))
    nullable = ("service", "recovery")
    changes = {
        name: value
        for name, value in structs.asdict(body).items()
        if not isinstance(value, UnsetType) and (value is not None or name in nullable)
    }
    settings = replace(read_threshold_settings(at.found.threshold), **changes)
    found = await thresholds.update_threshold(at.session, at.found, settings, at.actor, at.now)
    return _describe(found)


@operations.delete("/v1/thresholds/{threshold}", checks_if_match=True)
async def delete_threshold(at: _Change) -> ThresholdDocument:
    """Remove a threshold.

    Its incident ends.
    """
    await lock_threshold(at.session, at.found)
    document = _describe(at.found)
    at.check_if_match(_settings(document))
    await thresholds.delete_threshold(at.session, at.found, at.actor, at.now)
    return document
