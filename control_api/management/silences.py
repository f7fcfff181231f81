"""Silences, during which matching incidents are not sent: `/v1/silences`."""

from datetime import datetime
from typing import Annotated, Literal, TypedDict

from msgspec import Meta, Struct

from control_api.incident_pages.incident_words import describe_beginning
from control_api.operations.access import At, at, at_account
from control_api.operations.bodies import json_body
from control_api.operations.pages import PageOf, PageQuery, read_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.describe import PersonSummary, summarize_person
from control_domain.accounts.roles import Right
from control_domain.notifications import silences
from control_domain.notifications.kinds import Kinds, read_kinds
from control_domain.notifications.silences import FoundSilence, NewSilence, find_silence
from control_domain.notifications.visibility import require_right_at
from control_domain.projects.describe import (
    EnvironmentSummary,
    ProjectSummary,
    summarize_environment,
    summarize_project,
)
from control_domain.projects.find import find_environment, find_project
from control_domain.slugs import MAX_REASON_LENGTH
from control_domain.tables.accounts import Account
from pipeline_contracts.errors import Conflict, DeployNotAllowed, NotAllowed, NotFound, invalid_field
from pipeline_contracts.times import format_time

operations = OperationRouter("Notifications")

_List = Annotated[At[Account], at_account("notifications:read")]
_Create = Annotated[At[Account], at_account("notifications:write")]
_End = Annotated[At[FoundSilence], at(find_silence, "silence", "notifications:write", Right.DEPLOY)]

_Id = Annotated[str, Meta(min_length=1, max_length=60)]
_Time = Annotated[datetime, Meta(tz=True)]


class SilenceDocument(TypedDict):
    """A time in which matching incidents are not sent."""

    id: int
    state: Literal["waiting", "active", "ended"]
    project: Annotated[ProjectSummary | None, Meta(description="Null for all projects and the platform.")]
    environment: Annotated[EnvironmentSummary | None, Meta(description="Null: all environments.")]
    kinds: Annotated[list[str] | None, Meta(description="Kinds and families; null for all.")]
    incident: Annotated[
        str | None, Meta(description="The ID of the only incident that it silences; null for all that match.")
    ]
    incident_title: Annotated[str | None, Meta(description="The title of that incident.")]
    starts_at: str
    ends_at: str
    reason: str
    person: Annotated[
        PersonSummary | None,
        Meta(description="The person who created it; null if it was created through a signed link."),
    ]
    created_at: str


class CreateSilence(Struct, kw_only=True):
    """A new silence. It always has an end, at most 90 days from now."""

    project: Annotated[
        _Id | None,
        Meta(description="The project's string ID or number; by default all projects and the platform."),
    ] = None
    environment: Annotated[
        _Id | None,
        Meta(
            description="An environment, by string ID or number; by default all environments of the project."
        ),
    ] = None
    kinds: Kinds | None = None
    starts_at: Annotated[_Time | None, Meta(description="Without it, now.")] = None
    ends_at: Annotated[
        _Time, Meta(description="When the silence ends, at least a minute after its beginning.")
    ]
    reason: Annotated[
        str, Meta(max_length=MAX_REASON_LENGTH, description="For others to read.", examples=["Migration"])
    ] = ""


class SilenceQuery(PageQuery, kw_only=True):
    """The page and the filter of the list of silences."""

    project: Annotated[
        str | None, Meta(description="Only silences of the project with this ID or number.")
    ] = None


def describe_silence(found: FoundSilence, now: datetime) -> SilenceDocument:
    """Return the document of a silence."""
    row = found.silence
    return {
        "id": row.id,
        "state": "ended" if row.ends_at <= now else "waiting" if row.starts_at > now else "active",
        "project": None if found.project is None else summarize_project(found.project),
        "environment": None if found.environment is None else summarize_environment(found.environment),
        "kinds": read_kinds(row.kinds),
        "incident": None if found.incident is None else found.incident.public_id,
        "incident_title": None if found.incident is None else describe_beginning(found.incident).title,
        "starts_at": format_time(row.starts_at),
        "ends_at": format_time(row.ends_at),
        "reason": row.reason,
        "person": None if found.person is None else summarize_person(found.person),
        "created_at": format_time(row.created_at),
    }


@operations.get("/v1/silences", problems=[NotFound, DeployNotAllowed])
async def list_silences(
    at: _List, params: Annotated[SilenceQuery, query(SilenceQuery)]
) -> PageOf[SilenceDocument]:
    """List silences.

    The silences that have not ended, the newest first: of the whole account, and of all projects in which you have a
    role.
    """
    pages = read_pages(at, params, "silences")
    project = None
    if params.project is not None:
        project = await find_project(at.session, at.caller, params.project, Right.READ)
    found, has_more = await silences.list_silences(at.session, at.caller, project, at.now, pages.page)
    return pages.answer(
        [describe_silence(each, at.now) for each in found], found[-1].silence.id if has_more else None
    )


@operations.post("/v1/silences", status=201, problems=[Conflict, NotFound, NotAllowed, DeployNotAllowed])
async def create_silence(
    at: _Create, body: Annotated[CreateSilence, json_body(CreateSilence)]
) -> SilenceDocument:
    """Create a silence.

    Matching incidents are not sent until it ends, and then only those that are still open; the end of an incident that
    was sent is always sent. Deployers and maintainers can silence their projects, owners and admins the whole account.
    """
    project = environment = None
    if body.environment is not None:
        target = await find_environment(at.session, at.caller, body.environment, Right.DEPLOY)
        environment, project = target.environment, target.project
    if body.project is not None:
        named = await find_project(at.session, at.caller, body.project, Right.DEPLOY)
        if project is not None and project.id != named.id:
            raise invalid_field("environment", "is not an environment of the project")
        project = named
    if project is None:
        await require_right_at(at.session, at.caller, None, Right.DEPLOY)
    new = NewSilence(
        project_id=None if project is None else project.id,
        environment_id=None if environment is None else environment.id,
        kinds=body.kinds,
        starts_at=body.starts_at or at.now,
        ends_at=body.ends_at,
        reason=body.reason,
    )
    made = await silences.add_silence(at.session, at.account, new, at.actor, at.now)
    return describe_silence(FoundSilence(made, project, environment, None, at.caller.person), at.now)


@operations.delete("/v1/silences/{silence}", problems=[Conflict, NotAllowed])
async def end_silence(at: _End) -> SilenceDocument:
    """End a silence.

    Incidents that it has held are sent now if they are still open. A silence that has not begun is removed.
    """
    await silences.end_silence(at.session, at.found, at.actor, at.now)
    return describe_silence(at.found, at.now)
