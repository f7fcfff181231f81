"""Invitations of people to the account: `/v1/invitations`."""

from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Meta, Struct

from control_api.operations.access import At, WithoutToken, at_account, at_account_object, without_token
from control_api.operations.bodies import json_body
from control_api.operations.pages import PageOf, PageQuery, read_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts.roles import AccountRight, AccountRole
from control_domain.invitations import accept, manage
from control_domain.invitations.describe import (
    AcceptedInvitation,
    CreatedInvitation,
    InvitationDocument,
    InvitationState,
    InvitationWithPerson,
    describe_invitations,
)
from control_domain.invitations.manage import InvitationRequest, find_invitation
from control_domain.keys import choose_expiry
from control_domain.projects.members import RoleName
from control_domain.tables.accounts import Account
from pipeline_contracts.errors import Conflict, NotFound, invalid_field

operations = OperationRouter("Account")

_List = Annotated[At[Account], at_account("account:read", AccountRight.MANAGE)]
_Create = Annotated[At[Account], at_account("account:write", AccountRight.MANAGE)]
_Revoke = Annotated[
    At[InvitationWithPerson],
    at_account_object(find_invitation, "invitation", "account:write", AccountRight.MANAGE),
]

_DAY_SECONDS = 86_400
_DEFAULT_LIFE = timedelta(days=7)
_LONGEST_LIFE = timedelta(days=30)


class InvitationsQuery(PageQuery, kw_only=True):
    """Filters of invitations."""

    state: Annotated[InvitationState | None, Meta(description="Only invitations in this state.")] = None


class ProjectRoleOfInvitation(Struct, kw_only=True):
    """A role in a project."""

    project: Annotated[str, Meta(max_length=40, description="The project's string ID, or its number.")]
    role: Annotated[RoleName, Meta(description="The role in the project.")]


class CreateInvitation(Struct, kw_only=True):
    """A person to invite, and the access that the person gets."""

    email: Annotated[
        str, Meta(max_length=254, description="The person's e-mail address.", examples=["ada@example.com"])
    ]
    role: Annotated[AccountRole, Meta(description="The role in the account.")] = "member"
    project_roles: Annotated[
        list[ProjectRoleOfInvitation],
        Meta(max_length=50, description="Roles in projects."),
    ] = []
    expires_at: (
        Annotated[
            datetime,
            Meta(
                tz=True,
                description="When the invitation stops working, within 30 days. Without it and "
                "`expires_in`, in 7 days.",
            ),
        ]
        | None
    ) = None
    expires_in: (
        Annotated[
            int, Meta(ge=60, le=30 * _DAY_SECONDS, description="Seconds from now, in place of `expires_at`.")
        ]
        | None
    ) = None


class AcceptInvitation(Struct, kw_only=True):
    """The secret of an invitation, and the name of the person."""

    invitation: Annotated[str, Meta(max_length=200, description="The secret.", examples=["phr_inv_…"])]
    name: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=100,
                description="1 to 100 printable characters. Required for a new person; a person who "
                "is in another account keeps the name from there.",
            ),
        ]
        | None
    ) = None


@operations.get("/v1/invitations")
async def list_invitations(
    at: _List, params: Annotated[InvitationsQuery, query(InvitationsQuery)]
) -> PageOf[InvitationDocument]:
    """List the invitations to the account.

    The newest first, without their secrets.
    """
    pages = read_pages(at, params, f"invitations {params.state or ''}")
    found, has_more = await manage.list_invitations(at.session, at.account, params.state, pages.page, at.now)
    return pages.answer(
        await describe_invitations(at.session, at.account, found, at.now),
        found[-1].invitation.id if has_more else None,
    )


@operations.post("/v1/invitations", status=201, problems=[Conflict], secret=True)
async def create_invitation(
    at: _Create, body: Annotated[CreateInvitation, json_body(CreateInvitation)]
) -> CreatedInvitation:
    """Invite a person to the account.

    The response has the secret of the invitation, which is not shown again. Pass it on to the person, who accepts the
    invitation with it. Pharos does not e-mail it, and anybody who has the secret can join under this address. Only
    owners can invite owners. An API token needs all scopes for this, because the person can sign in, and a session has
    all of them. 409 if the person is in the account or invited already.
    """
    await at.lock_rights()
    now = at.now
    expires_at = choose_expiry(body.expires_at, body.expires_in, now) or now + _DEFAULT_LIFE
    if not now < expires_at <= now + _LONGEST_LIFE:
        raise invalid_field(
            "expires_at", f"must be in the future, at most {_LONGEST_LIFE.days} days from now"
        )
    request = InvitationRequest(
        body.email,
        body.role,
        [(each.project, each.role) for each in body.project_roles],
        expires_at,
    )
    invitation, secret = await manage.invite(at.session, at.caller, request, at.actor, now)
    found = InvitationWithPerson(invitation, at.caller.person)
    (document,) = await describe_invitations(at.session, at.account, [found], now)
    return {**document, "secret": secret}


@operations.delete("/v1/invitations/{invitation:int}", problems=[Conflict])
async def revoke_invitation(at: _Revoke) -> InvitationDocument:
    """Revoke an invitation.

    It can no longer be accepted. A revoked invitation stays unchanged. 409 if the person has accepted it.
    """
    await at.lock_rights()
    await manage.revoke_invitation(at.session, at.found.invitation, at.actor, at.now)
    (document,) = await describe_invitations(at.session, at.account, [at.found], at.now)
    return document


@operations.post("/v1/invitations/accept", status=201, problems=[Conflict, NotFound])
async def accept_invitation(
    opened: Annotated[WithoutToken, without_token()],
    body: Annotated[AcceptInvitation, json_body(AcceptInvitation)],
) -> AcceptedInvitation:
    """Accept an invitation.

    Needs no API token: the secret of the invitation gives access to the account, once. The person joins the account
    and gets a first API token, which is not shown again. 404 for a secret that is unknown, expired, revoked or used;
    409 for an invitation that does not give all scopes. If the response is lost, ask to be removed from the account
    and invited again.
    """
    return await accept.accept_invitation(
        opened.session, body.invitation, body.name, opened.actor, opened.now
    )
