"""Sign-in with an OpenID Connect provider: the redirect to the provider, and the callback."""

import asyncio
import base64
import hashlib
import hmac
import logging
import secrets
import time
from datetime import UTC, datetime
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.authentication import unknown_actor
from control_api.http.public_address import is_at_public_address, public_address, request_address
from control_api.http.session_cookie import read_cookie, read_session_cookie, set_cookie
from control_api.management.sign_in import read_origin, set_cookie_of
from control_api.oidc.failures import BadIdToken, ProviderFailed
from control_api.oidc.provider import OidcProvider
from control_api.request_session import Session, end_transaction
from control_domain.sealing import CannotOpen, Sealed, SealingKeys
from control_domain.sign_in.attempt_limits import count_attempt, limits_of_address, take_back_attempt
from control_domain.sign_in.memberships import choose_account
from control_domain.sign_in.oidc import UnknownPerson, find_oidc_person
from control_domain.sign_in.sessions import SessionCaller, find_session_caller, is_live
from control_domain.sign_in.sign_in import end_former_session, sign_in
from control_domain.storage.disk_reserve import make_space_on_full_disk
from control_domain.tables.sign_in import SignInSession
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.errors import UNKNOWN_ADDRESS, NotAllowed, NotFound, TooManyRequests

logger = logging.getLogger(__name__)

router = APIRouter(prefix="/api", include_in_schema=False)

_COOKIE = "pharos_oidc"
_SECONDS = 600
_OWNER = "sign-in with OpenID Connect"


@router.get("/v1/session/oidc", response_model=None)
async def begin(request: Request, session: Session) -> RedirectResponse:
    """Redirect the browser to the provider, and store the values that its response must match in a sealed cookie.

    The cookie also names the browser's session, because browsers do not send the session cookie with the callback,
    which another site starts.
    """
    provider = _find_provider(request)
    if not is_at_public_address(request) and "here" not in request.query_params:
        # The provider sends people back to the public address, where a cookie of this address is not available.
        # Redirect only once: behind a proxy that changes `Host`, no request ever has the public address.
        query = urlencode({"next": _read_next(request.query_params.get("next", "/")), "here": 1})
        return RedirectResponse(f"{public_address(request)}/api/v1/session/oidc?{query}", 302)
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    try:
        url = await provider.make_authorization_url(state, nonce, challenge)
    except ProviderFailed as error:
        logger.warning("the OIDC provider %s failed: %s", provider.settings.issuer, error)
        return _back("oidc-failed")
    present = await _find_session(request, session)
    kept = {
        "session": "" if present is None else str(present.session.id),
        "state": state,
        "nonce": nonce,
        "verifier": verifier,
        "next": _read_next(request.query_params.get("next", "/")),
        "until": str(int(time.time()) + _SECONDS),
    }
    keys: SealingKeys = request.app.state.variable_keys
    sealed = keys.seal(kept, _OWNER)
    value = f"{sealed.key_id}.{base64.urlsafe_b64encode(sealed.data).decode()}"
    # Lax, because the provider's page redirects back here.
    set_cookie(request, _COOKIE, value, _SECONDS, same_site="Lax")
    return RedirectResponse(url, 302)


@router.get("/v1/session/oidc/callback", response_model=None)
async def finish(request: Request, session: Session) -> RedirectResponse:
    """Process the provider's callback, and sign the person in."""
    provider = _find_provider(request)
    kept = _read_kept(request)
    set_cookie(request, _COOKIE, "", 0, same_site="Lax")
    query = request.query_params
    problem = _find_problem(request, provider, kept)
    if kept is None or problem is not None:
        return _back(problem or "oidc-expired")
    # Release the reserve of a full disk, as for other ways to sign in, so that the session can be recorded.
    await asyncio.to_thread(make_space_on_full_disk, request.app.state.storage_access.data_folder)
    limits = limits_of_address(read_origin(request).network)
    try:
        # Limit the callbacks, because each code leads to a request to the provider with the secret of this
        # installation.
        attempts = await count_attempt(session, limits, datetime.now(UTC))
    except TooManyRequests:
        await session.rollback()
        return _back("oidc-often")
    await end_transaction(session)
    try:
        known = await provider.read_person(query["code"], kept["verifier"], kept["nonce"])
    except (ProviderFailed, BadIdToken) as error:
        logger.warning("the OIDC provider %s failed: %s", provider.settings.issuer, error)
        return _back("oidc-failed")
    now, actor = datetime.now(UTC), unknown_actor(request)
    former = await _find_kept_session(session, kept.get("session", ""), now)
    try:
        signed_in = None if former is None else former.person_id
        person = await find_oidc_person(session, known, signed_in, actor, now)
        account = await choose_account(session, person)
    except UnknownPerson as unknown:
        await session.rollback()
        return _back(unknown.reason)
    except NotAllowed:
        await session.rollback()
        return _back("oidc-unknown")
    await take_back_attempt(session, attempts)
    if former is not None:
        await end_former_session(session, former.digest, actor, now)
    secret = await sign_in(session, person, account, "oidc", read_origin(request), actor, now)
    await end_transaction(session)
    set_cookie_of(request, secret)
    return RedirectResponse(kept["next"], 302)


def _find_problem(request: Request, provider: OidcProvider, kept: dict[str, str] | None) -> str | None:
    """Return why the provider's callback cannot be used, or None. Uses up its state."""
    query = request.query_params
    state = query.get("state", "")
    if kept is None:
        logger.warning(
            "a sign-in with OpenID Connect came back without its cookie to %s: it took too long, or was begun at "
            "another address or in another browser; the address of this installation is %s",
            request_address(request),
            public_address(request),
        )
    if kept is None or not hmac.compare_digest(state.encode(), kept["state"].encode()):
        return "oidc-expired"
    if "code" not in query:
        logger.warning("the OIDC provider has refused a sign-in: %s", query.get("error", "")[:100])
        return "oidc-refused"
    return None if provider.use_state(state, _SECONDS) else "oidc-expired"


async def _find_session(request: Request, session: AsyncSession) -> SessionCaller | None:
    """Return the browser's session if it is live."""
    secret = read_session_cookie(request)
    if secret is None:
        return None
    found = await find_session_caller(session, digest_credential(secret), datetime.now(UTC))
    # The provider may be slow.
    await end_transaction(session)
    return found


async def _find_kept_session(session: AsyncSession, number: str, now: datetime) -> SignInSession | None:
    """Return the session that the browser had before it went to the provider, if it is still live."""
    # Account scope: the number comes from a cookie that only this installation can seal.
    found = await session.get(SignInSession, int(number)) if number else None
    return found if found is not None and is_live(found, now) else None


def _find_provider(request: Request) -> OidcProvider:
    """Return the provider. Raises `NotFound` if no provider is configured."""
    provider: OidcProvider | None = request.app.state.oidc
    if provider is None:
        raise NotFound(UNKNOWN_ADDRESS)
    return provider


def _back(problem: str) -> RedirectResponse:
    """Show the sign-in page, which explains the problem."""
    return RedirectResponse(f"/sign-in?problem={quote(problem)}", 302)


def _read_next(path: str) -> str:
    """Return the page to open afterwards, which must be an address of this dashboard."""
    is_own = (
        path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and path.isascii()
    )
    return path if is_own and len(path) <= 1000 and "\\" not in path else "/"


def _read_kept(request: Request) -> dict[str, str] | None:
    """Return the values that `begin` has stored, if they belong to this browser and have not expired."""
    key_id, _, data = (read_cookie(request, _COOKIE) or "").partition(".")
    keys: SealingKeys = request.app.state.variable_keys
    try:
        kept = keys.open(Sealed(key_id, base64.urlsafe_b64decode(data)), _OWNER)
    except (CannotOpen, ValueError):
        return None
    return kept if int(kept["until"]) > time.time() else None
