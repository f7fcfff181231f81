"""The session of a browser: `/v1/session` signs people in and out, and switches the account."""

from typing import Annotated, TypedDict

from fastapi import Request
from msgspec import Meta, Struct

from control_api.http.client_address import client_address
from control_api.http.session_cookie import read_session_cookie, set_session_cookie
from control_api.oidc.provider import OidcProvider
from control_api.operations.access import At, WithoutToken, at_session, sign_in_page, without_token
from control_api.operations.bodies import json_body
from control_api.operations.router import OperationRouter
from control_api.request_session import end_transaction
from control_domain.sign_in import join, links
from control_domain.sign_in.check_credentials import Credentials
from control_domain.sign_in.describe import CurrentSession, EndedSessions, describe_current_session
from control_domain.sign_in.passwords import has_any_password
from control_domain.sign_in.sessions import (
    LIFETIME,
    SignInOrigin,
    find_session_caller,
)
from control_domain.sign_in.sign_in import (
    end_former_session,
    end_session,
    sign_in_with_password,
    switch_account,
)
from control_domain.tables.sign_in import SignInSession
from pipeline_contracts.client_address import network_of
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.errors import (
    Conflict,
    CrossSiteRequest,
    InvalidCredential,
    NotAllowed,
    NotFound,
    SecondFactorRequired,
    SignInRefused,
)

operations = OperationRouter("Sign-in")

_Session = Annotated[At[SignInSession], at_session()]
_FromPage = Annotated[WithoutToken, sign_in_page()]
_REFUSALS = (SignInRefused, SecondFactorRequired, CrossSiteRequest, NotAllowed)

_NewPassword = Annotated[str, Meta(max_length=1000, description="12 to 200 characters.")]
_Code = Annotated[
    Annotated[str, Meta(max_length=100)] | None,
    Meta(
        description="A code of the second factor, or a recovery code. Required for a person who has a second factor."
    ),
]


class SignIn(Struct, kw_only=True):
    """The credentials with which a person signs in."""

    email: Annotated[str, Meta(max_length=254, description="The e-mail address, in any case.")]
    password: Annotated[str, Meta(max_length=1000, description="The password.")]
    code: _Code = None


class UseLink(Struct, kw_only=True):
    """A one-time link, and the password to set."""

    link: Annotated[str, Meta(max_length=200, description="The secret.", examples=["phr_lnk_…"])]
    password: _NewPassword
    code: _Code = None
    revoke_tokens: Annotated[
        bool, Meta(description="True to revoke the person's API tokens in all accounts as well.")
    ] = False


class JoinAccount(Struct, kw_only=True):
    """An invitation, and the credentials of the person who accepts it."""

    invitation: Annotated[str, Meta(max_length=200, description="The secret.", examples=["phr_inv_…"])]
    password: Annotated[
        str,
        Meta(
            max_length=1000,
            description="A new password of 12 to 200 characters; for a person who has a password "
            "already, that password.",
        ),
    ]
    name: (
        Annotated[
            str,
            Meta(min_length=1, max_length=100, description="Required for a new person."),
        ]
        | None
    ) = None
    code: _Code = None


class SwitchAccount(Struct, kw_only=True):
    """The account that the session uses from now on."""

    account: Annotated[str, Meta(max_length=100, description="The account's string ID, number or slug.")]


class SignInOptions(TypedDict):
    """How people can sign in to this installation."""

    oidc_name: Annotated[
        str | None,
        Meta(
            description="The name of the OpenID Connect provider at `/api/v1/session/oidc`; null without a provider."
        ),
    ]

    has_passwords: Annotated[
        bool,
        Meta(description="False while nobody has set a password. `pharos sign-in-link` prints a first link."),
    ]


@operations.get("/v1/session/options")
async def read_sign_in_options(opened: Annotated[WithoutToken, without_token()]) -> SignInOptions:
    """Read how people can sign in."""
    provider: OidcProvider | None = opened.request.app.state.oidc
    return {
        "oidc_name": None if provider is None else provider.settings.name,
        "has_passwords": await has_any_password(opened.session),
    }


@operations.get("/v1/session")
async def read_session(at: _Session) -> CurrentSession:
    """Read who is signed in."""
    return await describe_current_session(at.session, at.caller, at.found)


@operations.post("/v1/session", status=201, problems=_REFUSALS)
async def sign_in(opened: _FromPage, body: Annotated[SignIn, json_body(SignIn)]) -> CurrentSession:
    """Sign in with a password.

    The response sets the session cookie. 401 with the type `second-factor-required` if the password is right but a
    code is required too. 429 after too many failed attempts from the address or for the person; wait as long as
    `Retry-After` says.
    """
    origin = read_origin(opened.request)
    secret = await sign_in_with_password(
        opened.session,
        opened.request.app.state.password_hasher,
        opened.request.app.state.variable_keys,
        Credentials(body.email, body.password, body.code, origin.network),
        origin,
        opened.actor,
        opened.now,
    )
    return await _open_session(opened, secret)


@operations.post("/v1/session/link", status=201, problems=[*_REFUSALS, NotFound])
async def sign_in_with_link(
    opened: _FromPage, body: Annotated[UseLink, json_body(UseLink)]
) -> CurrentSession:
    """Set a password with a one-time link, and sign in.

    Ends all other sessions of the person; API tokens keep working unless `revoke_tokens` is true. 404 for a link that
    is unknown, expired or used.
    """
    secret = await links.use_link(
        opened.session,
        opened.request.app.state.password_hasher,
        opened.request.app.state.variable_keys,
        body.link,
        body.password,
        body.code,
        read_origin(opened.request),
        opened.actor,
        opened.now,
        revokes_tokens=body.revoke_tokens,
    )
    return await _open_session(opened, secret)


@operations.post("/v1/session/invitation", status=201, problems=[*_REFUSALS, NotFound, Conflict])
async def sign_in_with_invitation(
    opened: _FromPage, body: Annotated[JoinAccount, json_body(JoinAccount)]
) -> CurrentSession:
    """Join an account by an invitation, and sign in.

    A new person sets a password; a person who has one enters it. No API token is created. 404 for an invitation that
    is unknown, expired, revoked or used; 409 for an invitation that does not give all scopes.
    """
    secret = await join.join_with_password(
        opened.session,
        opened.request.app.state.password_hasher,
        opened.request.app.state.variable_keys,
        body.invitation,
        body.name,
        body.password,
        body.code,
        read_origin(opened.request),
        opened.actor,
        opened.now,
    )
    return await _open_session(opened, secret)


@operations.patch("/v1/session")
async def switch_session_account(
    at: _Session, body: Annotated[SwitchAccount, json_body(SwitchAccount)]
) -> CurrentSession:
    """Switch the account of the session.

    The next requests use this account, in all tabs. 422 unless the person is a member of it.
    """
    secret = await switch_account(at.session, at.caller, body.account, at.actor, at.now)
    await at.end_transaction()
    return await _set_cookie_and_describe(WithoutToken(at.request, at.session, at.actor, at.now), secret)


@operations.delete("/v1/session")
async def sign_out(at: Annotated[At[SignInSession], at_session(ends=True)]) -> EndedSessions:
    """Sign out.

    Ends the session and removes the cookie. A 503 also removes the cookie, although the session could not be ended.
    """
    ended = await end_session(at.session, at.caller, at.found.id, at.actor, at.now)
    return {"ended": int(ended)}


def read_origin(request: Request) -> SignInOrigin:
    """Return the address and browser from which a person signs in."""
    address = client_address(request, request.app.state.client_addresses)
    return SignInOrigin(address, network_of(address), request.headers.get("user-agent", ""))


def set_cookie_of(request: Request, secret: str) -> None:
    """Set the cookie with the secret of a session. Call this after the commit: a secret that was not stored would sign
    the person out."""
    set_session_cookie(request, secret, int(LIFETIME.total_seconds()))


async def _open_session(opened: WithoutToken, secret: str) -> CurrentSession:
    """End the browser's former session, commit, and set the cookie of the new session."""
    present = read_session_cookie(opened.request)
    if present is not None:
        await end_former_session(opened.session, digest_credential(present), opened.actor, opened.now)
    await end_transaction(opened.session)
    return await _set_cookie_and_describe(opened, secret)


async def _set_cookie_and_describe(opened: WithoutToken, secret: str) -> CurrentSession:
    found = await find_session_caller(opened.session, digest_credential(secret), opened.now)
    if found is None:
        raise InvalidCredential("The session was ended by another request at the same moment. Sign in again.")
    set_cookie_of(opened.request, secret)
    return await describe_current_session(opened.session, *found)
