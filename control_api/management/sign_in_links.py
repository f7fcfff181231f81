"""One-time sign-in links for people of the account: `/v1/people/{person}/sign-in-link`."""

from typing import Annotated

from control_api.http.public_address import public_address
from control_api.management.confirmed_body import WithOwnPassword, confirmed_body
from control_api.operations.access import At, at_account_object
from control_api.operations.router import OperationRouter
from control_domain.accounts.describe import summarize_person
from control_domain.accounts.members import Member
from control_domain.accounts.people import find_person
from control_domain.accounts.roles import AccountRight
from control_domain.sign_in.describe import SignInLinkDocument
from control_domain.sign_in.links import create_link_for_member, make_sign_in_url
from pipeline_contracts.errors import Conflict
from pipeline_contracts.times import format_time

operations = OperationRouter("Sign-in")

_manage = at_account_object(find_person, "person", "account:write", AccountRight.MANAGE)
_Manage = Annotated[At[Member], _manage]
_Body = Annotated[WithOwnPassword, confirmed_body(_manage, WithOwnPassword, is_optional=True)]


@operations.post("/v1/people/{person}/sign-in-link", status=201, problems=[Conflict], secret=True)
async def create_sign_in_link(at: _Manage, body: _Body) -> SignInLinkDocument:
    """Create a sign-in link for a person.

    With the link, the person sets a first password or replaces a forgotten one: once, within 24 hours. Pharos does not
    e-mail the link: pass it on to the person alone, because everybody who has it can act as the person. It replaces
    the person's former link; sessions end only when it is used. Only owners can create links for owners. For 7 days
    after its use, you and the person do not count as two people where a second person must decide. An API token needs
    all scopes for this. 409 for yourself, and for a person who is in an account that you do not manage.
    """
    await at.lock_rights()
    link = await create_link_for_member(at.session, at.caller, at.found, at.actor, at.now)
    return {
        "person": summarize_person(at.found.person),
        "link": link.secret,
        "url": make_sign_in_url(public_address(at.request), link.secret),
        "expires_at": format_time(link.expires_at),
    }
