"""From the `Authorization` header to who calls, for routes of the control plane."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from fastapi import Request

from control_api.http.client_address import client_address
from control_api.limits.request_limits import RequestLimits
from control_api.request_session import Session, end_transaction
from control_domain.accounts.operations import Caller, find_caller, note_use
from control_domain.audit import Actor
from control_domain.projects.operations import UNKNOWN_KEY, OpenedEnvironment, find_by_ingest_key
from pipeline_contracts.client_address import ClientAddresses
from pipeline_contracts.credentials import (
    CredentialKind,
    bearer_credential,
    digest_credential,
    is_well_formed,
)
from pipeline_contracts.errors import InvalidCredential, MissingScope


def _digest(request: Request, kind: CredentialKind, name: str) -> bytes:
    credential = bearer_credential(request.headers.get("authorization"))
    if credential is None:
        raise InvalidCredential(f"Send {name} as 'Authorization: Bearer {kind.value}…'.")
    if not is_well_formed(credential, kind):
        raise InvalidCredential(
            f"This is not {name}: it starts with {kind.value}, and its check sum must hold."
        )
    return digest_credential(credential)


def api_token(scope: str) -> Callable[[Request, Session], Awaitable[Caller]]:
    """A dependency: the caller, whose token has `scope`. 401 without a good token, 403 without the scope."""

    async def authenticate(request: Request, session: Session) -> Caller:
        digest = _digest(request, CredentialKind.API_TOKEN, "an API token")
        now = datetime.now(UTC)
        caller = await find_caller(session, digest, now)
        if caller is None:
            _forget(request, digest)
            raise InvalidCredential("This token is not known, has expired, or was revoked.")
        _remember(request, digest, f"account {caller.account.id}")
        if await note_use(session, caller, now):
            # At once: a caller whose body is slow to come would keep everybody else from writing on SQLite.
            await end_transaction(session)
        if scope not in caller.scopes:
            raise MissingScope(f"The token lacks the scope {scope}.")
        return caller

    return authenticate


async def ingest_key(request: Request, session: Session) -> OpenedEnvironment:
    """A dependency: the environment that the ingest key opens. 401 without a good key."""
    digest = _digest(request, CredentialKind.INGEST_KEY, "an ingest key")
    environment = await find_by_ingest_key(session, digest, datetime.now(UTC))
    if environment is None:
        _forget(request, digest)
        raise InvalidCredential(UNKNOWN_KEY)
    _remember(request, digest, f"account {environment.account_id}")
    return environment


def _remember(request: Request, digest: bytes, owner: str) -> None:
    """Have the next requests with this credential count towards the limits of its owner."""
    limits: RequestLimits | None = request.app.state.request_limits
    if limits is not None:
        limits.remember(digest, owner)


def _forget(request: Request, digest: bytes) -> None:
    """Have the requests with this credential count towards the limits of the client's address."""
    limits: RequestLimits | None = request.app.state.request_limits
    if limits is not None:
        limits.forget(digest)


def actor_of(request: Request, caller: Caller) -> Actor:
    """The caller as the audit log has it."""
    addresses: ClientAddresses = request.app.state.client_addresses
    return Actor(
        source=client_address(request, addresses),
        person_id=caller.person.id,
        token_id=caller.token_id,
        request_id=request.scope["state"]["request_id"],
    )
