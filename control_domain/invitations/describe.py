"""Documents of invitations, as the API returns them."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, cast

from msgspec import Meta
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.describe import (
    AccountSummary,
    PersonSummary,
    summarize_account,
    summarize_person,
)
from control_domain.accounts.roles import AccountRole
from control_domain.projects.describe import ProjectSummary, summarize_project
from control_domain.projects.members import RoleName
from control_domain.tables.accounts import Account, Person
from control_domain.tables.invitations import Invitation
from control_domain.tables.projects import Project
from pipeline_contracts.times import format_optional_time, format_time

InvitationState = Literal["pending", "accepted", "expired", "revoked"]


class InvitedProjectRole(TypedDict):
    """A role in a project that the invited person gets."""

    project: ProjectSummary
    role: RoleName


class InvitationDocument(TypedDict):
    """An invitation to the account, without its secret."""

    id: int
    email: str
    role: Annotated[AccountRole, Meta(description="The role in the account.")]
    project_roles: list[InvitedProjectRole]
    state: InvitationState
    invited_by: PersonSummary
    created_at: str
    expires_at: str
    accepted_at: str | None
    revoked_at: str | None


class CreatedInvitation(InvitationDocument):
    """A new invitation."""

    secret: Annotated[
        str,
        Meta(
            description="The secret with which the invited person alone accepts the invitation. It is not shown "
            "again. In a link it belongs after `#`, so that no server logs it."
        ),
    ]


class AcceptedInvitation(TypedDict):
    """A person who has joined an account."""

    person: PersonSummary
    account: AccountSummary
    role: Annotated[AccountRole, Meta(description="The role in the account.")]
    api_token: Annotated[str, Meta(description="The person's first API token, which is not shown again.")]


class InvitationWithPerson(NamedTuple):
    """An invitation, and the person who made it."""

    invitation: Invitation
    invited_by: Person


def get_invitation_state(invitation: Invitation, now: datetime) -> InvitationState:
    """Return whether the invitation can still be accepted, or why not."""
    if invitation.accepted_at is not None:
        return "accepted"
    if invitation.revoked_at is not None:
        return "revoked"
    return "pending" if invitation.expires_at > now else "expired"


def read_project_roles(invitation: Invitation) -> Mapping[int, RoleName]:
    """Return the roles by the number of the project. Some projects may be removed already."""
    return {int(number): role for number, role in json.loads(invitation.project_roles).items()}


async def describe_invitations(
    session: AsyncSession, account: Account, found: Sequence[InvitationWithPerson], now: datetime
) -> list[InvitationDocument]:
    """Return the documents of invitations of the account. Removed projects are left out."""
    numbers = {number for each in found for number in read_project_roles(each.invitation)}
    projects: dict[int, Project] = {}
    if numbers:
        query = select(Project).where(Project.account_id == account.id, Project.id.in_(numbers))
        projects = {project.id: project for project in (await session.execute(query)).scalars()}
    return [_describe(each, projects, now) for each in found]


def _describe(
    found: InvitationWithPerson, projects: Mapping[int, Project], now: datetime
) -> InvitationDocument:
    invitation = found.invitation
    return {
        "id": invitation.id,
        "email": invitation.email,
        "role": cast(Any, invitation.role),
        "project_roles": [
            {"project": summarize_project(projects[number]), "role": role}
            for number, role in read_project_roles(invitation).items()
            if number in projects
        ],
        "state": get_invitation_state(invitation, now),
        "invited_by": summarize_person(found.invited_by),
        "created_at": format_time(invitation.created_at),
        "expires_at": format_time(invitation.expires_at),
        "accepted_at": format_optional_time(invitation.accepted_at),
        "revoked_at": format_optional_time(invitation.revoked_at),
    }


def describe_accepted(person: Person, account: Account, role: str, api_token: str) -> AcceptedInvitation:
    return {
        "person": summarize_person(person),
        "account": summarize_account(account),
        "role": cast(Any, role),
        "api_token": api_token,
    }
