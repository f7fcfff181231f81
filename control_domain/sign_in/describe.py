"""Documents of sign-in, as the API returns them."""

from datetime import datetime
from typing import Annotated, Any, TypedDict, cast

from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.describe import (
    AccountSummary,
    PersonSummary,
    summarize_account,
    summarize_person,
)
from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import SCOPES, AccountRole, Scope
from control_domain.projects.members import RoleName
from control_domain.sign_in.memberships import list_accounts_of, list_project_roles_of
from control_domain.sign_in.passwords import read_password_hash
from control_domain.sign_in.second_factor import has_second_factor
from control_domain.sign_in.sessions import SignInMethod
from control_domain.tables.sign_in import SignInSession
from pipeline_contracts.times import format_time


class OwnAccount(AccountSummary):
    """An account of the person who is signed in."""

    role: Annotated[AccountRole, Meta(description="The person's role in the account.")]


class CurrentSession(TypedDict):
    """The person who is signed in, and the account that the session uses."""

    person: PersonSummary
    account: AccountSummary
    role: Annotated[AccountRole, Meta(description="The person's role in the account.")]
    project_roles: Annotated[
        dict[str, RoleName],
        Meta(
            description="The person's roles in the projects of the account, by project ID. Owners and admins, who have "
            "all rights in all projects, need none."
        ),
    ]
    accounts: Annotated[list[OwnAccount], Meta(description="All accounts in which the person is a member.")]
    scopes: Annotated[list[Scope], Meta(description="All scopes: the role decides what the person may do.")]
    has_password: bool
    second_factor: Annotated[bool, Meta(description="True if sign-in requires a code.")]
    created_at: Annotated[str, Meta(description="When the person signed in.")]
    expires_at: Annotated[
        str, Meta(description="When the session ends; earlier after 7 days without a request.")
    ]


class SessionDocument(TypedDict):
    """A browser in which the person is signed in."""

    id: int
    is_current: Annotated[bool, Meta(description="True for the session of this request.")]
    method: Annotated[SignInMethod, Meta(description="How the person signed in.")]
    address: Annotated[str, Meta(description="The address that the person signed in from.")]
    user_agent: Annotated[str, Meta(description="The browser's own name, from the header User-Agent.")]
    created_at: str
    last_used_at: Annotated[str, Meta(description="To the minute.")]
    expires_at: str


class EndedSessions(TypedDict):
    """Sessions that were ended."""

    ended: Annotated[int, Meta(description="The number of sessions.")]


class SignInLinkDocument(TypedDict):
    """A link with which a person sets a password, once."""

    person: PersonSummary
    link: Annotated[
        str,
        Meta(
            description="The secret, which is not shown again, for the person alone. It belongs after `#link=` in the "
            "address of the sign-in page, so that no server logs it."
        ),
    ]
    url: Annotated[str, Meta(description="The address of the sign-in page with the secret.")]
    expires_at: str


class BegunSecondFactor(TypedDict):
    """A secret for an authenticator, which is not shown again."""

    secret: Annotated[str, Meta(description="In base 32, to be typed into an authenticator.")]
    otpauth_url: str
    qr_code: Annotated[str, Meta(description="The URL as a QR code: an SVG image.")]


class ConfirmedSecondFactor(TypedDict):
    """The recovery codes of a new second factor."""

    recovery_codes: Annotated[
        list[str],
        Meta(description="Each replaces a code of the authenticator once. They are not shown again."),
    ]


class SecondFactorState(TypedDict):
    """The state of the second factor: whether sign-in requires a code."""

    second_factor: bool


async def describe_current_session(
    session: AsyncSession, caller: Caller, found: SignInSession
) -> CurrentSession:
    person = caller.person
    accounts = await list_accounts_of(session, person.id)
    return {
        "person": summarize_person(person),
        "account": summarize_account(caller.account),
        "role": cast(Any, caller.role),
        "project_roles": cast(Any, await list_project_roles_of(session, caller)),
        "accounts": [{**summarize_account(each.account), "role": cast(Any, each.role)} for each in accounts],
        "scopes": [*SCOPES],
        "has_password": await read_password_hash(session, person.id) is not None,
        "second_factor": await has_second_factor(session, person.id),
        "created_at": format_time(found.created_at),
        "expires_at": format_time(found.expires_at),
    }


def describe_session(found: SignInSession, caller: Caller, now: datetime) -> SessionDocument:
    return {
        "id": found.id,
        "is_current": found.id == caller.session_id,
        "method": cast(Any, found.method),
        "address": found.address,
        "user_agent": found.user_agent,
        "created_at": format_time(found.created_at),
        "last_used_at": format_time(found.last_used_at),
        "expires_at": format_time(found.expires_at),
    }
