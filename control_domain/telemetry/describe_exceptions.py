"""Documents of groups of exceptions."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta

from analytics_queries.telemetry.exception_groups import GroupTimes
from analytics_queries.telemetry.time_range import from_nanoseconds
from control_domain.accounts.describe import PersonSummary
from control_domain.telemetry.describe_services import format_step
from control_domain.telemetry.releases import Deployments
from control_domain.telemetry.statuses import GroupStatus, Status
from control_domain.telemetry.time_ranges import format_nanoseconds
from pipeline_contracts.times import format_optional_time, format_time

GroupId = Annotated[
    str, Meta(description="16 hexadecimal digits, which never change.", examples=["9f86d081884c7d65"])
]


class DeployedVersion(TypedDict):
    """A deployment, recorded or by Pharos."""

    version: str
    deployed_at: str


class ExceptionStatusDocument(TypedDict):
    """What people decided about a group of exceptions."""

    id: GroupId
    status: Annotated[
        Status,
        Meta(
            description="A resolved group is open again once it has regressed, that is, once a newer "
            "release than the one that "
            "was live when it was resolved has raised it. Exceptions of that release, and of older ones, only count."
        ),
    ]
    assignee: Annotated[
        PersonSummary | None,
        Meta(description="Null without an assignee, and if the assignee is a former member."),
    ]
    resolved_at: str | None
    resolved_in: Annotated[
        DeployedVersion | None, Meta(description="The deployment that was live when the group was resolved.")
    ]
    regressed_at: Annotated[
        str | None, Meta(description="The first exception of a newer release, if the group was resolved.")
    ]


class ExceptionPoint(TypedDict):
    """The exceptions of one step."""

    at: Annotated[str, Meta(description="When the step begins.")]
    count: int


class ExceptionSeriesDocument(TypedDict):
    """The exceptions of a group in each step of a time range. Steps without exceptions are left out."""

    step_seconds: int
    points: list[ExceptionPoint]


class ExceptionGroupDocument(ExceptionStatusDocument):
    """A group of exceptions: those with the same fingerprint, or else with the same type, message without its variable
    parts, and innermost frame."""

    type: Annotated[str | None, Meta(examples=["KeyError"])]
    message: Annotated[str, Meta(description="The message of the last exception.")]
    frame: Annotated[str | None, Meta(description="The innermost frame of the stack, without its line.")]
    count: Annotated[int, Meta(description="Exceptions in the time range.")]
    affected_users: Annotated[
        int,
        Meta(
            description="Users in the time range: the largest number that an exception names, or the number of "
            "different `user.id`, whichever is larger."
        ),
    ]
    services: Annotated[list[str], Meta(description="Up to 20, in the time range.")]
    first_seen: Annotated[str, Meta(description="Within 90 days, or as long as exceptions are kept.")]
    last_seen: str
    first_deployment: Annotated[
        DeployedVersion | None, Meta(description="The deployment after which the group appeared.")
    ]
    trace_id: Annotated[str | None, Meta(description="The trace of the last exception.")]
    trend: Annotated[
        list[ExceptionPoint],
        Meta(description="Empty without `steps`; steps without exceptions are left out."),
    ]


class ExceptionGroupDetails(ExceptionGroupDocument):
    """A group of exceptions with the stack of the last one."""

    stack: Annotated[str | None, Meta(description="The middle of a long stack is left out.")]
    version: Annotated[str | None, Meta(description="The version that the last exception names.")]


class ExceptionDocument(TypedDict):
    """One exception."""

    timestamp: str
    source: Annotated[
        Literal["event", "span", "log"],
        Meta(
            description="The kind of record that reported it: a telemetry event, an event of a "
            "span, or a log record."
        ),
    ]
    service: str | None
    version: str | None
    type: str | None
    message: str
    stack: str | None
    trace_id: str | None
    span_id: str | None
    user: Annotated[str | None, Meta(description="The attribute `user.id`.")]


def describe_status(
    group_id: str,
    status: GroupStatus,
    regressed_at: datetime | None,
    deployed: Deployments,
    services: Sequence[str] = (),
) -> ExceptionStatusDocument:
    """`deployed`: the deployments of the environment. `services`: those of the group."""
    resolved_at = status.resolved_at
    return {
        "id": group_id,
        "status": "open" if regressed_at is not None else status.status,
        "assignee": status.assignee,
        "resolved_at": format_optional_time(resolved_at),
        "resolved_in": None if resolved_at is None else _live_at(deployed, services, resolved_at),
        "regressed_at": format_optional_time(regressed_at),
    }


def describe_group(
    group_id: str,
    counted: Mapping[str, Any],
    times: GroupTimes,
    sample: Mapping[str, Any],
    status: GroupStatus,
    regressed_at: datetime | None,
    deployed: Deployments,
    trend: Sequence[ExceptionPoint] = (),
) -> ExceptionGroupDocument:
    """`counted`: the row of the group in the time range, or nothing; `sample`: its last exception."""
    services = list(counted.get("services", ()))
    first_seen = from_nanoseconds(times.first_seen_ns)
    return {
        **describe_status(group_id, status, regressed_at, deployed, services),
        "type": sample.get("kind") or None,
        "message": sample.get("message", ""),
        "frame": sample.get("frame") or None,
        "count": counted.get("count", 0),
        "affected_users": counted.get("affected_users", 0),
        "services": services,
        "first_seen": format_nanoseconds(times.first_seen_ns),
        "last_seen": format_nanoseconds(times.last_seen_ns),
        "first_deployment": _live_at(deployed, services, first_seen),
        "trace_id": sample.get("trace_id") or None,
        "trend": list(trend),
    }


def describe_group_details(
    group_id: str,
    counted: Mapping[str, Any],
    times: GroupTimes,
    sample: Mapping[str, Any],
    status: GroupStatus,
    regressed_at: datetime | None,
    deployed: Deployments,
) -> ExceptionGroupDetails:
    return {
        **describe_group(group_id, counted, times, sample, status, regressed_at, deployed),
        "stack": sample.get("stack") or None,
        "version": sample.get("version") or None,
    }


def describe_trend(trend: Sequence[tuple[int, int]], step_s: int) -> list[ExceptionPoint]:
    """`trend`: pairs of a step and its number of exceptions."""
    return [{"at": format_step(step, step_s), "count": count} for step, count in trend]


def describe_exception(row: Mapping[str, Any]) -> ExceptionDocument:
    """`row`: a row of `newest_occurrences`."""
    return {
        "timestamp": format_nanoseconds(row["time_ns"]),
        "source": row["source_name"],
        "service": row["shown_service"] or None,
        "version": row["shown_version"] or None,
        "type": row["kind"] or None,
        "message": row["message"],
        "stack": row["stack"] or None,
        "trace_id": row["shown_trace_id"] or None,
        "span_id": row["shown_span_id"] or None,
        "user": row["shown_user"] or None,
    }


def _live_at(deployed: Deployments, services: Sequence[str], moment: datetime) -> DeployedVersion | None:
    """Return the deployment that was live for these services; without services, for any service."""
    live = deployed.releases_of(services or deployed.services).live_at(moment)
    return None if live is None else {"version": live.version, "deployed_at": format_time(live.deployed_at)}
