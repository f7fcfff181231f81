"""The people in the account: `/v1/people`. Invitations add people."""

from typing import Annotated

from msgspec import Meta, Struct

from control_api.operations.access import At, at_account, at_account_object
from control_api.operations.bodies import json_body
from control_api.operations.pages import PageOf, PageQuery, read_pages
from control_api.operations.queries import query
from control_api.operations.router import OperationRouter
from control_domain.accounts import people
from control_domain.accounts.members import Member
from control_domain.accounts.people import PersonDocument, RemovedPerson, describe_person, find_person
from control_domain.accounts.roles import AccountRight, AccountRole
from control_domain.sites.shares import count_or_revoke_shares_of
from control_domain.tables.accounts import Account
from pipeline_contracts.errors import LastOwner

operations = OperationRouter("Account")

_List = Annotated[At[Account], at_account("account:read")]
_Read = Annotated[At[Member], at_account_object(find_person, "person", "account:read")]
_Manage = Annotated[
    At[Member], at_account_object(find_person, "person", "account:write", AccountRight.MANAGE)
]
_Remove = Annotated[At[Member], at_account_object(find_person, "person", "account:write")]


class PeopleQuery(PageQuery, kw_only=True):
    """Filters of people."""

    email: Annotated[
        Annotated[str, Meta(max_length=254)] | None,
        Meta(description="Only the person with this e-mail address, in any case."),
    ] = None


class UpdatePerson(Struct, kw_only=True):
    """The fields of a person that change."""

    role: Annotated[AccountRole | None, Meta(description="The role in the account.")] = None


def _settings(document: PersonDocument) -> dict[str, str]:
    return {"role": document["role"]}


class RemovePersonQuery(Struct, kw_only=True):
    """The access that is removed together with the membership."""

    revoke_report_links: Annotated[
        bool, Meta(description="True to revoke the links to reports that the person has made.")
    ] = False


@operations.get("/v1/people")
async def list_people(
    at: _List, params: Annotated[PeopleQuery, query(PeopleQuery)]
) -> PageOf[PersonDocument]:
    """List the people in the account.

    The newest first.
    """
    pages = read_pages(at, params, f"people {params.email or ''}")
    members, has_more = await people.list_people(at.session, at.account, params.email, pages.page)
    return pages.answer(
        [describe_person(member) for member in members], members[-1].person.id if has_more else None
    )


@operations.get("/v1/people/{person}", etag=_settings)
async def read_person(at: _Read) -> PersonDocument:
    """Read a person in the account."""
    return describe_person(at.found)


@operations.patch("/v1/people/{person}", etag=_settings, problems=[LastOwner])
async def update_person(
    at: _Manage, body: Annotated[UpdatePerson, json_body(UpdatePerson)]
) -> PersonDocument:
    """Change the role of a person in the account.

    Only an owner can make somebody an owner, or change the role of an owner. 409 for the last owner. The person's
    pending invitations that the new role does not allow are revoked.
    """
    await at.lock_rights()
    member = at.found
    at.check_if_match(_settings(describe_person(member)))
    if body.role is not None:
        member = await people.change_person_role(at.session, at.caller, member, body.role, at.actor, at.now)
    return describe_person(member)


@operations.delete("/v1/people/{person}", problems=[LastOwner], checks_if_match=True)
async def remove_person(
    at: _Remove, params: Annotated[RemovePersonQuery, query(RemovePersonQuery)]
) -> RemovedPerson:
    """Remove a person from the account.

    Removes the person's roles in projects, and revokes the person's API tokens and pending invitations. Notification
    rules no longer name the person, and notifications that were not sent yet are canceled. Links to reports that the
    person has made keep working unless `revoke_report_links` is true. Owners and admins can remove others, only owners
    can remove owners, and everybody may remove themselves. 409 for the last owner.
    """
    await at.lock_rights()
    at.check_if_match(_settings(describe_person(at.found)))
    revokes = params.revoke_report_links
    links = await count_or_revoke_shares_of(
        at.session, at.account, at.found.person, revokes=revokes, actor=at.actor, now=at.now
    )
    return await people.remove_person(
        at.session,
        at.caller,
        at.found,
        at.actor,
        at.now,
        report_links=links,
        revoked_report_links=revokes,
    )
