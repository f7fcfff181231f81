"""`GET /incidents/{incident}` and its two forms. The signature in the address takes the place of a token.

A read changes nothing: programs that check the links of mails open them too.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Request, Response
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.authentication import unknown_actor
from control_api.incident_pages.page_style import POLICY
from control_api.incident_pages.write_page import (
    SILENCE_SECONDS,
    IncidentPage,
    write_incident_page,
    write_refusal,
)
from control_api.request_session import Session, end_transaction
from control_api.requests.json_body import read_bytes
from control_domain.audit import Actor
from control_domain.notifications.answer_incidents import acknowledge_incident, silence_incident
from control_domain.notifications.incidents import FoundIncident, find_linked_incident
from control_domain.notifications.signed_links import IncidentLinks
from control_domain.notifications.silences import find_silenced_until
from control_domain.tables.accounts import Account
from pipeline_contracts.errors import Conflict, InvalidInput, Problem

router = APIRouter(include_in_schema=False)

_MAX_BODY_BYTES = 4096
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    # The address is a credential.
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex, nofollow",
}
_NOTICES = {
    "acknowledged": "Acknowledged: no reminders follow.",
    "silenced": "Silenced.",
}


class _NoSuchPage(Exception):
    """The link does not work: status, title and text of the answer."""

    def __init__(self, status: int, title: str, text: str) -> None:
        super().__init__(text)
        self.response = _answer(write_refusal(title, text), status)


@router.get("/incidents/{incident}")
async def read_incident_page(incident: str, request: Request, session: Session) -> Response:
    """Show the incident."""
    now = datetime.now(UTC)
    try:
        signature = _check_signature(request, incident, now)
        found, account = await _find(session, incident)
    except _NoSuchPage as refusal:
        return refusal.response
    notice = _NOTICES.get(request.query_params.get("done", ""))
    return await _show(session, found, account, signature, now, notice=notice)


@router.post("/incidents/{incident}/acknowledge")
async def acknowledge_by_link(incident: str, request: Request, session: Session) -> Response:
    """Acknowledge the incident, or its group."""
    return await _change(request, session, incident, "acknowledged")


@router.post("/incidents/{incident}/silence")
async def silence_by_link(incident: str, request: Request, session: Session) -> Response:
    """Silence the incident, or its group."""
    return await _change(request, session, incident, "silenced")


async def _change(request: Request, session: AsyncSession, public_id: str, done: str) -> Response:
    now = datetime.now(UTC)
    try:
        signature = _check_signature(request, public_id, now)
        # No transaction is open while the body arrives.
        form = _read_form(await read_bytes(request, _MAX_BODY_BYTES))
        found, account = await _find(session, public_id)
    except _NoSuchPage as refusal:
        return refusal.response
    actor = _actor(request)
    try:
        if done == "acknowledged":
            await acknowledge_incident(session, found.incident, group="group" in form, actor=actor, now=now)
        else:
            await _silence(session, found, account, form, actor, now)
    except (Conflict, InvalidInput) as problem:
        return await _show(
            session, found, account, signature, now, notice=_explain(problem), base="../", problem=problem
        )
    await end_transaction(session)
    # The browser repeats a read when the page is reloaded, and not the change.
    location = f"../{quote(public_id)}?s={quote(signature)}&done={done}"
    return Response(status_code=303, headers={**_HEADERS, "Location": location})


async def _silence(
    session: AsyncSession,
    found: FoundIncident,
    account: Account,
    form: Mapping[str, str],
    actor: Actor,
    now: datetime,
) -> None:
    seconds = form.get("seconds", "")
    lengths = {str(each): each for each in SILENCE_SECONDS}
    if seconds not in lengths:
        raise InvalidInput("Choose for how long it is silenced.")
    await silence_incident(
        session,
        account,
        found.incident,
        now + timedelta(seconds=lengths[seconds]),
        form.get("reason", ""),
        group="group" in form,
        actor=actor,
        now=now,
    )


def _check_signature(request: Request, public_id: str, now: datetime) -> str:
    """Return the signature. Raises `_NoSuchPage`."""
    links: IncidentLinks = request.app.state.incident_links
    signature = request.query_params.get("s", "")
    if not links.check(public_id, signature, now):
        raise _NoSuchPage(
            403,
            "This link does not work",
            "It is incomplete, or older than 30 days. Open the link of a newer message, or look at the incident with "
            "the command pharos incidents.",
        )
    return signature


async def _find(session: AsyncSession, public_id: str) -> tuple[FoundIncident, Account]:
    found = await find_linked_incident(session, public_id)
    if found is None:
        raise _NoSuchPage(
            404, "This incident is not stored any more", "Incidents are removed 90 days after their end."
        )
    return found


def _read_form(body: bytes) -> dict[str, str]:
    """Return the first value of each field. Of a body that is no form, nothing."""
    text = body.decode("utf-8", "replace").replace("\0", "")
    return {name: values[0] for name, values in parse_qs(text, max_num_fields=10).items()}


def _actor(request: Request) -> Actor:
    """Return where the request came from, as audit entries name it."""
    unknown = unknown_actor(request)
    return Actor(f"signed link, {unknown.source}", request_id=unknown.request_id)


def _explain(problem: Problem) -> str:
    faults = [f"{error.field} {error.message}" for error in problem.errors]
    return f"Nothing was changed: {'; '.join(faults)}." if faults else problem.detail


async def _show(
    session: AsyncSession,
    found: FoundIncident,
    account: Account,
    signature: str,
    now: datetime,
    *,
    notice: str | None,
    base: str = "",
    problem: Problem | None = None,
) -> Response:
    page = IncidentPage(
        found,
        account.name,
        await find_silenced_until(session, found.incident, now),
        signature,
        now,
        base,
        notice,
    )
    return _answer(write_incident_page(page), 200 if problem is None else problem.status)


def _answer(page: str, status: int) -> Response:
    return Response(page, status, _HEADERS, media_type="text/html")
