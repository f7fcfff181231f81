"""The person of a sign-in link or an invitation: `/v1/session/link/owner` and `/v1/session/invitation/details`."""

from typing import Annotated

from msgspec import Meta, Struct

from control_api.operations.access import WithoutToken, sign_in_page
from control_api.operations.bodies import json_body
from control_api.operations.router import OperationRouter
from control_domain.sign_in.secret_owners import (
    InvitedPerson,
    LinkOwner,
    describe_invitation,
    describe_link,
)
from pipeline_contracts.errors import CrossSiteRequest, NotFound

operations = OperationRouter("Sign-in")

_FromPage = Annotated[WithoutToken, sign_in_page()]


class NamedLink(Struct, kw_only=True):
    """A one-time link."""

    link: Annotated[str, Meta(max_length=200, description="The secret.", examples=["phr_lnk_…"])]


class NamedInvitation(Struct, kw_only=True):
    """An invitation."""

    invitation: Annotated[str, Meta(max_length=200, description="The secret.", examples=["phr_inv_…"])]


@operations.post("/v1/session/link/owner", problems=[CrossSiteRequest, NotFound], idempotency=False)
async def read_link_owner(opened: _FromPage, body: Annotated[NamedLink, json_body(NamedLink)]) -> LinkOwner:
    """Read the person of a sign-in link.

    The link is not used up. 404 for a link that is unknown, expired or used.
    """
    return await describe_link(opened.session, body.link, opened.now)


@operations.post("/v1/session/invitation/details", problems=[CrossSiteRequest, NotFound], idempotency=False)
async def read_invitation_details(
    opened: _FromPage, body: Annotated[NamedInvitation, json_body(NamedInvitation)]
) -> InvitedPerson:
    """Read the person and the account of an invitation.

    The invitation is not used up. 404 for an invitation that is unknown, expired, revoked or used.
    """
    return await describe_invitation(opened.session, body.invitation, opened.now)
