"""Incidents, which are open or resolved problems: `/v1/incidents`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, TypedDict, cast

from msgspec import Meta, Struct

from control_api.incident_pages.incident_words import describe_beginning, describe_incident, read_facts
from control_api.management.incident_targets import IncidentTarget, find_target
from control_api.management.notifications import NotificationSummary, summarize_notification
from control_api.management.silences import SilenceDocument, describe_silence
from control_api.operations.access import At, at, at_account
from control_api.operations.bodies import json_body
from control_api.operations.pages import PageOf, PageQuery, read_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.describe import PersonSummary, summarize_person
from control_domain.accounts.roles import Right
from control_domain.notifications import answer_incidents, incidents
from control_domain.notifications.incidents import (
    FoundIncident,
    IncidentFilters,
    StateFilter,
    find_incident,
)
from control_domain.notifications.sent_notifications import NotificationFilters, list_notifications
from control_domain.notifications.silenced_incidents import find_silenced
from control_domain.notifications.silences import FoundSilence, choose_end
from control_domain.paging import Page
from control_domain.projects.describe import (
    EnvironmentSummary,
    ProjectSummary,
    summarize_environment,
    summarize_project,
)
from control_domain.projects.find import find_environment, find_project
from control_domain.slugs import MAX_REASON_LENGTH
from control_domain.tables.accounts import Account
from notifications.incidents.apply_events import DEPLOYMENT_BEFORE
from pipeline_contracts.alert_kinds import EventState, Severity
from pipeline_contracts.errors import Conflict, DeployNotAllowed, NotAllowed, NotFound
from pipeline_contracts.times import format_optional_time, format_time

operations = OperationRouter("Notifications")

_List = Annotated[At[Account], at_account("notifications:read")]
_Read = Annotated[At[FoundIncident], at(find_incident, "incident", "notifications:read", Right.READ)]
_Answer = Annotated[At[FoundIncident], at(find_incident, "incident", "notifications:write", Right.DEPLOY)]

_NOTIFICATIONS = 20
_LONGEST_SECONDS = 90 * 86_400


class FigureDocument(TypedDict):
    """A number of an incident with its unit."""

    name: str
    value: float
    unit: str
    threshold: float | None


class DeploymentBefore(TypedDict):
    """The last deployment that succeeded before an incident began."""

    number: int
    revision: str | None
    finished_at: str | None
    subject: str | None


class IncidentDocument(TypedDict):
    """A problem, from its beginning to its end."""

    id: str
    number: int
    kind: str
    state: Annotated[
        EventState,
        Meta(description="`firing` while it is open, `resolved`, or `info` for an event without an end."),
    ]
    severity: Severity
    title: Annotated[
        str,
        Meta(
            description="The problem, in a few words. After its end, the title still describes the problem."
        ),
    ]
    project: Annotated[
        ProjectSummary | None, Meta(description="Null for the platform, and for a removed project.")
    ]
    environment: EnvironmentSummary | None
    about: Annotated[
        IncidentTarget | None,
        Meta(
            description="The object that the incident is about; null for the platform, and if it is no longer known."
        ),
    ]
    started_at: str
    changed_at: str
    resolved_at: str | None
    acknowledged_at: str | None
    acknowledged_by: Annotated[
        PersonSummary | None, Meta(description="Null if it was acknowledged through a signed link.")
    ]
    silenced_until: Annotated[
        str | None, Meta(description="When the last silence that holds it ends; null without a silence.")
    ]


class IncidentDetails(IncidentDocument):
    """An incident with its details and its newest notifications."""

    details: list[str]
    figures: list[FigureDocument]
    labels: dict[str, str]
    command: Annotated[str | None, Meta(description="A command that shows more.")]
    deployment: DeploymentBefore | None
    notifications: Annotated[
        list[NotificationSummary],
        Meta(description="Up to 20 notifications that list the incident, the newest first."),
    ]


class Acknowledged(IncidentDocument):
    """An incident that is acknowledged."""

    incidents: Annotated[int, Meta(description="The number of incidents that this request acknowledged.")]


class AcknowledgeIncident(Struct, kw_only=True):
    """The incidents to acknowledge."""

    group: Annotated[
        bool,
        Meta(description="True for all open incidents of the same project, environment and family of kinds."),
    ] = False


class SilenceIncident(Struct, kw_only=True):
    """The silence to begin. Either `seconds` or `until` is required."""

    seconds: Annotated[
        Annotated[int, Meta(ge=60, le=_LONGEST_SECONDS)] | None,
        Meta(description="The length of the silence in seconds.", examples=[3600]),
    ] = None
    until: Annotated[
        Annotated[datetime, Meta(tz=True)] | None,
        Meta(description="When the silence ends, at most 90 days from now."),
    ] = None
    reason: Annotated[str, Meta(max_length=MAX_REASON_LENGTH, description="For others to read.")] = ""
    group: Annotated[
        bool,
        Meta(
            description="True for all incidents of the same project, environment and family of "
            "kinds, including those that begin meanwhile."
        ),
    ] = False


class IncidentQuery(PageQuery, kw_only=True):
    """The page and the filters of the list of incidents."""

    state: Annotated[
        StateFilter | None,
        Meta(description="Only incidents in this state. `acknowledged` means open and acknowledged."),
    ] = None
    project: Annotated[
        str | None, Meta(description="Only incidents of the project with this ID or number.")
    ] = None
    environment: Annotated[
        str | None, Meta(description="Only incidents of the environment with this ID or number.")
    ] = None
    kind: Annotated[
        Annotated[str, Meta(max_length=40)] | None,
        Meta(description="Only incidents of this kind or family. Tests are listed only with `test`."),
    ] = None
    subject: Annotated[
        Annotated[str, Meta(max_length=160)] | None,
        Meta(
            description="Only incidents about this subject: for example, the number of a heartbeat "
            "with `kind=heartbeat`.",
            examples=["12"],
        ),
    ] = None


async def _describe_all(at: At[Any], found: Sequence[FoundIncident]) -> list[IncidentDocument]:
    silenced = await find_silenced(at.session, at.account.id, [each.incident for each in found], at.now)
    return [_describe(each, silenced.get(each.incident.id)) for each in found]


def _describe(found: FoundIncident, silenced_until: datetime | None) -> IncidentDocument:
    incident = found.incident
    return {
        "id": incident.public_id,
        "number": incident.id,
        "kind": incident.kind,
        "state": cast(EventState, incident.state),
        "severity": cast(Severity, incident.severity),
        "title": describe_beginning(incident).title,
        "project": None if found.project is None else summarize_project(found.project),
        "environment": None if found.environment is None else summarize_environment(found.environment),
        "about": find_target(incident),
        "started_at": format_time(incident.started_at),
        "changed_at": format_time(incident.changed_at),
        "resolved_at": format_optional_time(incident.resolved_at),
        "acknowledged_at": format_optional_time(incident.acknowledged_at),
        "acknowledged_by": (
            None if found.acknowledged_by is None else summarize_person(found.acknowledged_by)
        ),
        "silenced_until": format_optional_time(silenced_until),
    }


def _describe_deployment(facts: dict[str, Any]) -> DeploymentBefore | None:
    deployment = facts.get(DEPLOYMENT_BEFORE)
    if not isinstance(deployment, dict) or "number" not in deployment:
        return None
    return {
        "number": deployment["number"],
        "revision": deployment.get("revision"),
        "finished_at": deployment.get("finished_at"),
        "subject": deployment.get("subject"),
    }


@operations.get("/v1/incidents", problems=[NotFound, DeployNotAllowed])
async def list_incidents(
    at: _List, params: Annotated[IncidentQuery, query(IncidentQuery)]
) -> PageOf[IncidentDocument]:
    """List incidents.

    The incidents of all projects in which you have a role, the newest first; owners and admins also see incidents of
    the platform. Incidents are removed 90 days after their end.
    """
    pages = read_pages(at, params, "incidents")
    project = environment = None
    if params.project is not None:
        project = await find_project(at.session, at.caller, params.project, Right.READ)
    if params.environment is not None:
        target = await find_environment(at.session, at.caller, params.environment, Right.READ)
        environment = target.environment
    filters = IncidentFilters(
        state=params.state, project=project, environment=environment, kind=params.kind, subject=params.subject
    )
    found, has_more = await incidents.list_incidents(at.session, at.caller, filters, pages.page)
    return pages.answer(
        await _describe_all(at, found),
        found[-1].incident.id if has_more else None,
    )


@operations.get("/v1/incidents/{incident}", problems=[NotAllowed])
async def read_incident(at: _Read) -> IncidentDetails:
    """Read an incident.

    Includes its details and the newest notifications that list it.
    """
    found, description, facts = at.found, describe_incident(at.found), read_facts(at.found)
    notifications, _ = await list_notifications(
        at.session, at.caller, NotificationFilters(incident=found.incident), Page(_NOTIFICATIONS, None)
    )
    (document,) = await _describe_all(at, [found])
    return {
        **document,
        "details": description.details,
        "figures": [
            {
                "name": figure.name,
                "value": figure.value,
                "unit": figure.unit,
                "threshold": figure.threshold,
            }
            for figure in description.figures
        ],
        "labels": description.labels,
        "command": description.command,
        "deployment": _describe_deployment(facts),
        "notifications": [summarize_notification(at, each) for each in notifications],
    }


@operations.post("/v1/incidents/{incident}/acknowledge", problems=[Conflict, NotAllowed])
async def acknowledge_incident(
    at: _Answer,
    body: Annotated[AcknowledgeIncident, json_body(AcknowledgeIncident, is_optional=True)],
) -> Acknowledged:
    """Acknowledge an incident.

    No reminders of it follow, but its end is still sent. An incident that is already acknowledged, or has ended, stays
    unchanged. 409 for the group of an incident that has ended.
    """
    count = await answer_incidents.acknowledge_incident(
        at.session, at.found.incident, group=body.group, actor=at.actor, now=at.now
    )
    found = at.found
    if count and found.incident.acknowledged_at == at.now:
        found = found._replace(acknowledged_by=at.caller.person)
    (document,) = await _describe_all(at, [found])
    return {**document, "incidents": count}


@operations.post("/v1/incidents/{incident}/silence", status=201, problems=[Conflict, NotAllowed])
async def silence_incident(
    at: _Answer, body: Annotated[SilenceIncident, json_body(SilenceIncident)]
) -> SilenceDocument:
    """Silence an incident.

    The incident is not sent until the silence ends, and then only if it is still open. The end of an incident that was
    sent before is always sent. 409 for an incident that has ended.
    """
    ends_at = choose_end(body.until, body.seconds, at.now)
    made = await answer_incidents.silence_incident(
        at.session,
        at.account,
        at.found.incident,
        ends_at,
        body.reason,
        group=body.group,
        actor=at.actor,
        now=at.now,
    )
    found = FoundSilence(
        made,
        at.found.project,
        at.found.environment,
        None if body.group else at.found.incident,
        at.caller.person,
    )
    return describe_silence(found, at.now)
