"""`GET /incidents/{incident}` and its two forms. The signature in the address replaces a token. It names the recipient
of the link, whose present rights apply.

A GET request changes nothing, because programs that check links in mails open them too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
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
from control_domain.accounts.roles import Right
from control_domain.audit import Actor
from control_domain.notifications.answer_incidents import acknowledge_incident, silence_incident
from control_domain.notifications.incidents import FoundIncident, find_linked_incident
from control_domain.notifications.link_access import find_link_right
from control_domain.notifications.signed_links import IncidentLinks, LinkRecipient
from control_domain.notifications.silenced_incidents import find_silenced
from control_domain.tables.accounts import Account
from pipeline_contracts.errors import Conflict, DeployNotAllowed, InvalidInput, Problem

router = APIRouter(include_in_schema=False)

_MAX_BODY_BYTES = 4096
_MAX_FIELDS = 10
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    # The address is a credential, so it must not be cached or sent to other sites.
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex, nofollow",
}
_NOTICES = {
    "acknowledged": "Acknowledged: no reminders follow.",
    "silenced": "Silenced.",
}


class _NoSuchPage(Exception):
    """The link does not work. Has the status, title and text of the response."""

    def __init__(self, status: int, title: str, text: str) -> None:
        super().__init__(text)
        self.response = _answer(write_refusal(title, text), status)


@dataclass(frozen=True, slots=True)
class _Link:
    """A link with a valid signature."""

    signature: str
    recipient: LinkRecipient


@dataclass(frozen=True, slots=True)
class _Opened:
    """The incident and recipient of a link."""

    link: _Link
    found: FoundIncident
    account: Account
    may_act: bool
    """False if the recipient may only read the incident."""
    now: datetime


@router.get("/incidents/{incident}")
async def read_incident_page(incident: str, request: Request, session: Session) -> Response:
    """Show the incident."""
    now = datetime.now(UTC)
    try:
        opened = await _open(session, incident, _check_signature(request, incident, now), now)
    except _NoSuchPage as refusal:
        return refusal.response
    return await _show(session, opened, notice=_NOTICES.get(request.query_params.get("done", "")))


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
        link = _check_signature(request, public_id, now)
        # End the transaction before the body arrives.
        form = _read_form(await read_bytes(request, _MAX_BODY_BYTES))
        opened = await _open(session, public_id, link, now)
    except _NoSuchPage as refusal:
        return refusal.response
    actor = _actor(request, link.recipient)
    incident = opened.found.incident
    try:
        if not opened.may_act:
            raise DeployNotAllowed(
                "Your role in the project allows you to read the incident, but not to change it."
            )
        if incident.open_key is None:
            raise Conflict("The incident has ended already.")
        if done == "acknowledged":
            await acknowledge_incident(session, incident, group="group" in form, actor=actor, now=now)
        else:
            await _silence(session, opened, form, actor)
    except (Conflict, DeployNotAllowed, InvalidInput) as problem:
        return await _show(session, opened, notice=_explain(problem), base="../", problem=problem)
    await end_transaction(session)
    # Redirect, so that reloading the page repeats a GET request instead of the change.
    location = f"../{quote(public_id)}?s={quote(link.signature)}&done={done}"
    return Response(status_code=303, headers={**_HEADERS, "Location": location})


async def _silence(session: AsyncSession, opened: _Opened, form: Mapping[str, str], actor: Actor) -> None:
    seconds = form.get("seconds", "")
    lengths = {str(each): each for each in SILENCE_SECONDS}
    if seconds not in lengths:
        raise InvalidInput("Choose how long to silence it.")
    await silence_incident(
        session,
        opened.account,
        opened.found.incident,
        opened.now + timedelta(seconds=lengths[seconds]),
        form.get("reason", ""),
        group="group" in form,
        # Extend an existing silence, so that a link cannot use up the account's limit of silences.
        extends=True,
        actor=actor,
        now=opened.now,
    )


def _check_signature(request: Request, public_id: str, now: datetime) -> _Link:
    """Return the link. Raises `_NoSuchPage` unless its signature is valid."""
    links: IncidentLinks = request.app.state.incident_links
    signature = request.query_params.get("s", "")
    recipient = links.check(public_id, signature, now)
    if recipient is None:
        raise _NoSuchPage(
            403,
            "This link does not work",
            "It is incomplete, or older than 30 days. Open the link of a newer message, or run the "
            "command pharos incidents.",
        )
    return _Link(signature, recipient)


async def _open(session: AsyncSession, public_id: str, link: _Link, now: datetime) -> _Opened:
    """Return the incident and recipient of the link. Raises `_NoSuchPage`."""
    linked = await find_linked_incident(session, public_id)
    if linked is None:
        raise _NoSuchPage(
            404, "This incident is no longer stored", "Incidents are removed 90 days after their end."
        )
    found, account = linked
    right = await find_link_right(session, found.incident, link.recipient)
    if right is None:
        raise _NoSuchPage(
            403,
            "This link no longer works",
            "Its recipient no longer has access to the incident: the channel was removed or turned "
            "off, or the person has left the account or the project.",
        )
    return _Opened(link, found, account, right >= Right.DEPLOY, now)


def _read_form(body: bytes) -> dict[str, str]:
    """Return the first value of each field, or nothing if the body is not a form."""
    text = body.decode("utf-8", "replace").replace("\0", "")
    try:
        fields = parse_qs(text, max_num_fields=_MAX_FIELDS)
    except ValueError as error:
        raise InvalidInput(f"The form has more than {_MAX_FIELDS} fields.") from error
    return {name: values[0] for name, values in fields.items()}


def _actor(request: Request, recipient: LinkRecipient) -> Actor:
    """Return the recipient of the link and the address of the request as an actor for audit entries."""
    unknown = unknown_actor(request)
    link = "signed link" if recipient.channel_id is None else f"signed link of channel {recipient.channel_id}"
    return replace(unknown, source=f"{link}, {unknown.source}", person_id=recipient.person_id)


def _explain(problem: Problem) -> str:
    faults = [f"{error.field} {error.message}" for error in problem.errors]
    return f"Nothing was changed: {'; '.join(faults)}." if faults else problem.detail


async def _show(
    session: AsyncSession,
    opened: _Opened,
    *,
    notice: str | None,
    base: str = "",
    problem: Problem | None = None,
) -> Response:
    incident = opened.found.incident
    silenced = await find_silenced(session, opened.account.id, [incident], opened.now)
    page = IncidentPage(
        opened.found,
        opened.account.name,
        silenced.get(incident.id),
        opened.link.signature,
        opened.now,
        opened.may_act,
        base,
        notice,
    )
    return _answer(write_incident_page(page), 200 if problem is None else problem.status)


def _answer(page: str, status: int) -> Response:
    return Response(page, status, _HEADERS, media_type="text/html")
