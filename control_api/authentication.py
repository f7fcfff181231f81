"""Authenticates requests by the `Authorization` header, and checks the scopes of API tokens."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime

from fastapi import Request

from control_api.http.client_address import client_address
from control_api.limits.request_limits import RequestLimiter
from control_api.request_session import Session, end_transaction
from control_domain.accounts.operations import Caller, find_caller, record_token_use
from control_domain.audit import Actor
from control_domain.projects.operations import UNKNOWN_KEY, KeyEnvironment, find_environment_by_key
from pipeline_contracts.client_address import ClientAddresses
from pipeline_contracts.credentials import (
    CredentialKind,
    digest_credential,
    is_well_formed,
    parse_bearer,
)
from pipeline_contracts.errors import InvalidCredential, MissingScope

_UNKNOWN_TOKEN = "This token is not known, has expired, or was revoked."


def _credential_digest(request: Request, kind: CredentialKind, name: str) -> bytes:
    credential = parse_bearer(request.headers.get("authorization"))
    if credential is None:
        raise InvalidCredential(f"Send {name} as 'Authorization: Bearer {kind.value}…'.")
    if not is_well_formed(credential, kind):
        raise InvalidCredential(
            f"This is not {name}: it starts with {kind.value}, and its check sum must hold."
        )
    return digest_credential(credential)


def api_token(scope: str) -> Callable[[Request, Session], Awaitable[Caller]]:
    """Return a dependency that yields the caller: 401 without a valid API token, 403 if it lacks `scope`."""

    async def authenticate(request: Request, session: Session) -> Caller:
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
        require_scope(caller, scope)
        return caller

    return authenticate


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
    """Return the caller as the audit log records it."""
    return replace(unknown_actor(request), person_id=caller.person.id, token_id=caller.token_id)


def unknown_actor(request: Request) -> Actor:
    """Return where a request without an API token came from, as the audit log records it."""
    addresses: ClientAddresses = request.app.state.client_addresses
    return Actor(client_address(request, addresses), request_id=request.scope["state"]["request_id"])
