"""Sent and waiting notifications: `/v1/notifications`."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict, cast

import msgspec
from msgspec import Meta

from control_api.operations.access import At, at, at_account
from control_api.operations.pages import PageOf, PageQuery, read_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.describe import PersonSummary, summarize_person
from control_domain.accounts.roles import AccountRight, Right, has_account_right
from control_domain.notifications import sent_notifications
from control_domain.notifications.channels import find_channel
from control_domain.notifications.incidents import find_incident
from control_domain.notifications.sent_notifications import (
    FoundNotification,
    NotificationFilters,
    find_notification,
    list_attempts,
)
from control_domain.projects.describe import (
    EnvironmentSummary,
    ProjectSummary,
    summarize_environment,
    summarize_project,
)
from control_domain.projects.find import find_project
from control_domain.tables.accounts import Account
from control_domain.tables.notifications import NotificationAttempt
from pipeline_contracts.errors import Conflict, DeployNotAllowed, NotAllowed, NotFound
from pipeline_contracts.times import format_optional_time, format_time

operations = OperationRouter("Notifications")

_List = Annotated[At[Account], at_account("notifications:read")]
_Read = Annotated[
    At[FoundNotification], at(find_notification, "notification", "notifications:read", Right.READ)
]
_Resend = Annotated[
    At[FoundNotification], at(find_notification, "notification", "notifications:write", Right.DEPLOY)
]

Status = Literal["pending", "sent", "failed", "canceled"]


class _Head(msgspec.Struct):
    """The parts of a message that lists show."""

    reason: str
    state: str
    is_test: bool = False


_read_head = msgspec.json.Decoder(_Head).decode


class NotificationSummary(TypedDict):
    """A message to one recipient."""

    id: Annotated[
        str, Meta(description="The ID of the message, which is the same for each attempt to deliver it.")
    ]
    number: int
    title: str
    status: Annotated[
        Status,
        Meta(
            description="`failed`: Pharos has given up; `canceled`: the recipient was removed, or "
            "may no longer read it."
        ),
    ]
    state: Literal["firing", "resolved", "info"]
    reason: Annotated[
        Literal["first", "change", "reminder"], Meta(description="Why the message was written.")
    ]
    is_test: bool
    project: ProjectSummary | None
    environment: EnvironmentSummary | None
    recipient: Annotated[str, Meta(description="The name of the channel, or the address of the person.")]
    channel: Annotated[
        str | None, Meta(description="The ID of the channel; null for a person, and once it is removed.")
    ]
    person: PersonSummary | None
    attempts: int
    created_at: str
    next_attempt_at: Annotated[str | None, Meta(description="Null unless it is pending.")]
    sent_at: str | None
    last_error: Annotated[
        str | None,
        Meta(
            description="Why the last attempt failed. Null for members: it may quote the receiver's response."
        ),
    ]


class AttemptDocument(TypedDict):
    """One attempt to deliver a notification."""

    at: str
    took_ms: int
    outcome: Literal["sent", "retry", "failed"]
    error: Annotated[str | None, Meta(description="Null for members.")]
    requested: Annotated[bool, Meta(description="True if a person requested it.")]


class NotificationDetails(NotificationSummary):
    """A notification with its content, and the attempts to deliver it."""

    content: Annotated[dict[str, Any], Meta(description="The message, in the form of a webhook's `data`.")]
    deliveries: Annotated[list[AttemptDocument], Meta(description="Up to 100 attempts, the newest first.")]


class NotificationQuery(PageQuery, kw_only=True):
    """The page and the filters of the list of notifications."""

    status: Annotated[Status | None, Meta(description="Only notifications with this status.")] = None
    channel: Annotated[
        str | None, Meta(description="Only notifications to the channel with this ID or number.")
    ] = None
    incident: Annotated[
        str | None,
        Meta(
            description="Only notifications that list the incident with this ID or number, except "
            "those to removed channels."
        ),
    ] = None
    project: Annotated[
        str | None, Meta(description="Only notifications of the project with this ID or number.")
    ] = None
    since: Annotated[
        Annotated[datetime, Meta(tz=True)] | None,
        Meta(description="Only notifications that were written at this time or later."),
    ] = None


def summarize_notification(at: At[Any], found: FoundNotification) -> NotificationSummary:
    """Return the document of the notification in lists, as far as the caller may see it."""
    row = found.notification
    head = _read_head(row.content)
    return {
        "id": row.public_id,
        "number": row.id,
        "title": row.title,
        "status": cast(Status, row.status),
        "state": cast(Any, head.state),
        "reason": cast(Any, head.reason),
        "is_test": head.is_test,
        "project": None if found.project is None else summarize_project(found.project),
        "environment": None if found.environment is None else summarize_environment(found.environment),
        "recipient": row.recipient,
        "channel": None if found.channel is None else found.channel.public_id,
        "person": None if found.person is None else summarize_person(found.person),
        "attempts": row.attempts,
        "created_at": format_time(row.created_at),
        "next_attempt_at": format_time(row.next_attempt_at) if row.status == "pending" else None,
        "sent_at": format_optional_time(row.sent_at),
        "last_error": row.last_error if _sees_errors(at) else None,
    }


def _sees_errors(at: At[Any]) -> bool:
    """Return True if the caller may see errors: like a channel's settings, they reveal its server and the server's
    response."""
    return has_account_right(at.caller.role, AccountRight.MANAGE)


def _describe_attempt(at: At[Any], attempt: NotificationAttempt) -> AttemptDocument:
    return {
        "at": format_time(attempt.at),
        "took_ms": attempt.took_ms,
        "outcome": cast(Any, attempt.outcome),
        "error": attempt.error if _sees_errors(at) else None,
        "requested": attempt.requested,
    }


@operations.get("/v1/notifications", problems=[NotFound, DeployNotAllowed, NotAllowed])
async def list_notifications(
    at: _List, params: Annotated[NotificationQuery, query(NotificationQuery)]
) -> PageOf[NotificationSummary]:
    """List notifications.

    The notifications of all projects in which you have a role, the newest first; owners and admins also see those of
    the platform, and tests. Notifications are removed after 90 days.
    """
    pages = read_pages(at, params, "notifications")
    channel = incident = project = None
    if params.channel is not None:
        channel = await find_channel(at.session, at.caller, params.channel)
    if params.incident is not None:
        found_incident = await find_incident(at.session, at.caller, params.incident, Right.READ)
        incident = found_incident.incident
    if params.project is not None:
        project = await find_project(at.session, at.caller, params.project, Right.READ)
    filters = NotificationFilters(
        status=params.status, channel=channel, incident=incident, project=project, since=params.since
    )
    found, has_more = await sent_notifications.list_notifications(at.session, at.caller, filters, pages.page)
    return pages.answer(
        [summarize_notification(at, each) for each in found], found[-1].notification.id if has_more else None
    )


@operations.get("/v1/notifications/{notification}", problems=[NotAllowed])
async def read_notification(at: _Read) -> NotificationDetails:
    """Read a notification.

    Includes its content and the attempts to deliver it. The links in the content are left out, because they would let
    everybody who may read the notification act as its recipient.
    """
    row = at.found.notification
    attempts = await list_attempts(at.session, row)
    return {
        **summarize_notification(at, at.found),
        "content": _without_links(msgspec.json.decode(row.content)),
        "deliveries": [_describe_attempt(at, attempt) for attempt in attempts],
    }


@operations.post("/v1/notifications/{notification}/resend", problems=[Conflict, NotAllowed])
async def resend_notification(at: _Resend) -> NotificationSummary:
    """Send a notification again.

    It is sent at once, with the same message ID. 409 while it waits to be sent, if its channel was removed or is
    turned off, and if all open incidents that it reports have ended.
    """
    await sent_notifications.resend_notification(at.session, at.found, at.actor, at.now)
    return summarize_notification(at, at.found)


def _without_links(content: Any) -> dict[str, Any]:
    """Return the message without the signed links, which work without a token."""
    links = ("url", "acknowledge_url", "silence_url")
    incidents = [
        {name: value for name, value in each.items() if name not in links}
        for each in content.get("incidents", [])
    ]
    return {**{name: value for name, value in content.items() if name not in links}, "incidents": incidents}
