"""Authenticates requests by the `Authorization` header or a session cookie, and checks the scopes of API tokens."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from fastapi import Request

from control_api.http.client_address import client_address
from control_api.http.same_origin import check_same_origin
from control_api.http.session_cookie import (
    clear_session_cookie,
    count_session_cookies,
    read_session_cookie,
    set_session_cookie,
)
from control_api.limits.request_limits import RequestLimiter
from control_api.request_session import Session, end_transaction
from control_domain.accounts.operations import Caller, find_caller, record_token_use
from control_domain.audit import Actor
from control_domain.database.engine import Sessions
from control_domain.database.errors import DatabaseUnavailable
from control_domain.projects.operations import UNKNOWN_KEY, KeyEnvironment, find_environment_by_key
from control_domain.sign_in.sessions import (
    LIFETIME,
    SessionCaller,
    find_session_caller,
    has_use_to_record,
    record_use,
)
from pipeline_contracts.client_address import ClientAddresses
from pipeline_contracts.credentials import (
    CredentialKind,
    digest_credential,
    is_well_formed,
    parse_bearer,
)
from pipeline_contracts.errors import InvalidCredential, MissingScope, SessionRequired

_UNKNOWN_TOKEN = "This token is not known, has expired, or was revoked."
_KEPT = "keeps_credential"
_UNKNOWN_SESSION = "This session has ended. Sign in again."
_AMBIGUOUS_SESSION = (
    "The browser sent several session cookies. Another application on this host or its domain has set one of them, and "
    "this response removes it. Try again. If the error stays, delete the cookies of this domain in the browser."
)


def _credential_digest(request: Request, kind: CredentialKind, name: str) -> bytes:
    credential = parse_bearer(request.headers.get("authorization"))
    if credential is None:
        raise InvalidCredential(f"Send {name} as 'Authorization: Bearer {kind.value}…'.")
    if not is_well_formed(credential, kind):
        raise InvalidCredential(
            f"This is not {name}: it must start with {kind.value} and have a valid checksum."
        )
    return digest_credential(credential)


def signed_in(scope: str) -> Callable[[Request, Session], Awaitable[Caller]]:
    """Return a dependency that yields the caller of an API token or a session: 401 without a valid one, 403 for a token
    that lacks `scope`."""

    async def authenticate(request: Request, session: Session) -> Caller:
        bearer = parse_bearer(request.headers.get("authorization"))
        cookie = None if bearer is not None else _read_session_secret(request)
        if cookie is not None:
            caller = (await _find_session(request, session, cookie)).caller
        else:
            caller = await _find_token_caller(request, session)
        require_scope(caller, scope)
        return caller

    return authenticate


async def session_caller(request: Request, session: Session) -> SessionCaller:
    """Dependency: the caller of a session, and the session. 401 without a valid one, 403 for an API token."""
    if parse_bearer(request.headers.get("authorization")) is not None:
        await _find_token_caller(request, session)
        raise SessionRequired("Sign in with a browser: no API token may do this.")
    cookie = _read_session_secret(request)
    if cookie is None:
        raise InvalidCredential("Sign in first: the request has no session cookie.")
    return await _find_session(request, session, cookie)


def _read_session_secret(request: Request) -> str | None:
    """Return the secret in the session cookie, or None without one. Raises `InvalidCredential` if there are several."""
    secret = read_session_cookie(request)
    if secret is None and count_session_cookies(request) > 1:
        raise InvalidCredential(_AMBIGUOUS_SESSION)
    return secret


async def _find_token_caller(request: Request, session: Session) -> Caller:
    digest = _credential_digest(request, CredentialKind.API_TOKEN, "an API token")
    now = datetime.now(UTC)
    caller = await find_caller(session, digest, now)
    if caller is None:
        _forget_owner(request, digest)
        raise InvalidCredential(_UNKNOWN_TOKEN)
    _remember_owner(request, digest, f"account {caller.account.id}")
    if await record_token_use(session, caller, now):
        # Commit now: while a slow body arrives, an open write transaction would block all other writers on SQLite.
        await end_transaction(session)
    return caller


async def _find_session(request: Request, session: Session, secret: str) -> SessionCaller:
    check_same_origin(request)
    if not is_well_formed(secret, CredentialKind.SESSION):
        raise InvalidCredential(_UNKNOWN_SESSION)
    digest, now = digest_credential(secret), datetime.now(UTC)
    found = await find_session_caller(session, digest, now)
    if found is None:
        _forget_owner(request, digest)
        raise InvalidCredential(_UNKNOWN_SESSION)
    _remember_owner(request, digest, f"account {found.caller.account.id}")
    if not getattr(request.state, _KEPT, False) and has_use_to_record(found.session, digest, now):
        await _record_use(request, session, found, digest, now)
    return found


def keep_credential(request: Request) -> None:
    """Keep later checks of this request from rotating the secret of its session."""
    setattr(request.state, _KEPT, True)


def forget_session_cookie(request: Request) -> None:
    """Remove the session cookie with the response to a request that ends the session, even if ending it fails, so that
    nobody can continue the session on a shared computer. Raises `CrossSiteRequest`."""
    if not count_session_cookies(request) or parse_bearer(request.headers.get("authorization")) is not None:
        return
    check_same_origin(request)
    # A rotation would set the cookie again.
    keep_credential(request)
    clear_session_cookie(request)


async def _record_use(
    request: Request, session: Session, found: SessionCaller, digest: bytes, now: datetime
) -> None:
    """Record the use of a session, and set a new cookie if its secret was rotated."""
    # Return the request's connection to the pool first, so that no request holds two connections.
    await end_transaction(session)
    sessions: Sessions = request.app.state.sessions
    # On a full disk the use cannot be recorded, but people must be able to sign in to free space.
    with suppress(DatabaseUnavailable):
        async with sessions() as own, own.begin():
            secret = await record_use(own, found.session, digest, now)
        if secret is not None:
            set_session_cookie(request, secret, int(LIFETIME.total_seconds()))


def require_scope(caller: Caller, scope: str) -> None:
    """Raise `MissingScope` unless the caller's token has the scope."""
    if scope not in caller.scopes:
        raise MissingScope(f"The token lacks the scope {scope}.")


async def ingest_key(request: Request, session: Session) -> KeyEnvironment:
    """Dependency: the environment of the ingest key. 401 without a valid key."""
    digest = _credential_digest(request, CredentialKind.INGEST_KEY, "an ingest key")
    environment = await find_environment_by_key(session, digest, datetime.now(UTC))
    if environment is None:
        _forget_owner(request, digest)
        raise InvalidCredential(UNKNOWN_KEY)
    _remember_owner(request, digest, f"account {environment.account_id}")
    return environment


def _remember_owner(request: Request, digest: bytes, owner: str) -> None:
    """Count the next requests with this credential towards the limits of its owner."""
    limiter: RequestLimiter | None = request.app.state.request_limiter
    if limiter is not None:
        limiter.remember_owner(digest, owner)


def _forget_owner(request: Request, digest: bytes) -> None:
    """Count the requests with this credential towards the limits of the client's address."""
    limiter: RequestLimiter | None = request.app.state.request_limiter
    if limiter is not None:
        limiter.forget_owner(digest)


def actor_of(request: Request, caller: Caller) -> Actor:
    """Return the caller as an actor for the audit log."""
    return replace(unknown_actor(request), person_id=caller.person.id, token_id=caller.token_id)


def unknown_actor(request: Request) -> Actor:
    """Return the address of a request without an API token as an actor for the audit log."""
    addresses: ClientAddresses = request.app.state.client_addresses
    return Actor(client_address(request, addresses), request_id=request.scope["state"]["request_id"])
