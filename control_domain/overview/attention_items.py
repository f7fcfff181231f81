"""Items that need attention, as the public API returns them."""

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple, TypedDict

from msgspec import Meta

from control_domain.projects.describe import EnvironmentSummary, ProjectSummary
from pipeline_contracts.alert_kinds import Severity

MAX_ITEMS = 20
"""The number of items that are listed of each kind."""

AttentionKind = Literal[
    "incident",
    "deployment.failed",
    "deployment.waiting",
    "variables.waiting",
    "configuration.failed",
    "exception.new",
    "exception.spike",
    "service.errors",
    "service.slow",
    "heartbeat.down",
    "heartbeat.late",
    "queue.wait",
    "queue.size",
]
TargetType = Literal[
    "incident",
    "deployment",
    "variable_change",
    "configuration_run",
    "exception",
    "service",
    "heartbeat",
    "queue",
]


class AttentionTarget(TypedDict):
    """The subject of an item."""

    type: TargetType
    id: Annotated[str, Meta(description="The ID, the number or, for a service, the name.")]


class AttentionItem(TypedDict):
    """Something that needs attention now."""

    kind: AttentionKind
    severity: Severity
    title: str
    detail: str | None
    at: Annotated[str, Meta(description="When it began or, for exceptions, when the last one was seen.")]
    count: Annotated[
        int | None, Meta(description="The number of exceptions in the last 24 hours; null for other kinds.")
    ]
    project: Annotated[ProjectSummary | None, Meta(description="Null for the platform.")]
    environment: EnvironmentSummary | None
    target: AttentionTarget
    can_decide: Annotated[
        bool | None,
        Meta(description="True if you may decide a pending approval; null for other kinds."),
    ]


Subject = tuple[str, str, str]
"""Public ID of the environment, family, and the subject of an incident about the same thing."""


class Found(NamedTuple):
    """An item, and the subjects of incidents that are about the same thing."""

    item: AttentionItem
    subjects: Sequence[Subject] = ()


class Section(NamedTuple):
    """The first items of some kinds, and the total number of items."""

    found: Sequence[Found]
    total: int


def make_item(
    kind: AttentionKind,
    severity: Severity,
    title: str,
    at: str,
    target: tuple[TargetType, object],
    project: ProjectSummary | None,
    environment: EnvironmentSummary | None,
    *,
    detail: str | None = None,
    count: int | None = None,
    can_decide: bool | None = None,
) -> AttentionItem:
    return {
        "kind": kind,
        "severity": severity,
        "title": title,
        "detail": detail or None,
        "at": at,
        "count": count,
        "project": project,
        "environment": environment,
        "target": {"type": target[0], "id": str(target[1])},
        "can_decide": can_decide,
    }
