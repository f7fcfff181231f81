"""Reads the audit log of an account."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple, TypedDict

from msgspec import Meta
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.describe import PersonSummary, summarize_person
from control_domain.database.public_ids import matches_id
from control_domain.paging import Page
from control_domain.tables.accounts import Account, Person
from control_domain.tables.audit import AuditEntry
from pipeline_contracts.errors import invalid_field
from pipeline_contracts.times import format_time

# The kind of subject for each prefix of a public ID.
_KINDS = {"acc": "account", "prj": "project", "env": "environment", "usr": "person"}


class AuditEntryDocument(TypedDict):
    """One change: who made it, when, and what was changed."""

    id: int
    at: str
    person: Annotated[
        PersonSummary | None,
        Meta(description="Null if the installation itself or an unnamed operator made the change."),
    ]
    token_id: Annotated[int | None, Meta(description="The API token of the request; null if it had none.")]
    action: Annotated[str, Meta(examples=["variables.update"])]
    subject: Annotated[
        str, Meta(description="What was changed, as a kind and an ID.", examples=["environment env_01jz…"])
    ]
    details: Annotated[
        dict[str, Any], Meta(description="Further details for people to read. Never a secret.")
    ]
    source: Annotated[
        str,
        Meta(description="The address of the caller, or `operator` and the user's name on the machine."),
    ]
    request_id: str | None


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Conditions on the listed entries; None matches every entry."""

    subject: str | None = None
    """A kind and an ID (`site 4`), or only the public ID of an account, project, environment or person."""
    person: str | None = None
    """Number or public ID."""
    action: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    """Before this time."""


class EntryWithPerson(NamedTuple):
    """An audit entry, and the person who made the change."""

    entry: AuditEntry
    person: Person | None


def describe_audit_entry(found: EntryWithPerson) -> AuditEntryDocument:
    entry, person = found
    return {
        "id": entry.id,
        "at": format_time(entry.at),
        "person": None if person is None else summarize_person(person),
        "token_id": entry.token_id,
        "action": entry.action,
        "subject": entry.subject,
        "details": json.loads(entry.details),
        "source": entry.source,
        "request_id": entry.request_id,
    }


async def list_audit_entries(
    session: AsyncSession, account: Account, wanted: AuditFilter, page: Page
) -> tuple[Sequence[EntryWithPerson], bool]:
    """Return a page of the entries of the account, the newest first, and whether more follow.

    Raises `InvalidInput` for a time that cannot be stored.
    """
    query = (
        select(AuditEntry, Person)
        .outerjoin(Person, Person.id == AuditEntry.person_id)
        .where(AuditEntry.account_id == account.id)
        .order_by(AuditEntry.id.desc())
        .limit(page.limit + 1)
    )
    if wanted.subject is not None:
        query = query.where(AuditEntry.subject == _with_kind(wanted.subject))
    if wanted.person is not None:
        query = query.where(matches_id(Person.id, Person.public_id, wanted.person))
    if wanted.action is not None:
        query = query.where(AuditEntry.action == wanted.action)
    if wanted.since is not None:
        query = query.where(AuditEntry.at >= _in_utc(wanted.since, "since"))
    if wanted.until is not None:
        query = query.where(AuditEntry.at < _in_utc(wanted.until, "until"))
    if page.before is not None:
        query = query.where(AuditEntry.id < page.before)
    rows = [EntryWithPerson(*row) for row in await session.execute(query)]
    return rows[: page.limit], len(rows) > page.limit


def _with_kind(subject: str) -> str:
    """Return the subject in the form of audit entries: an ID without a kind gets the kind that its prefix stands
    for."""
    kind = _KINDS.get(subject.partition("_")[0])
    return subject if kind is None or " " in subject else f"{kind} {subject}"


def _in_utc(time: datetime, field: str) -> datetime:
    try:
        return time.astimezone(UTC)
    except OverflowError:
        # In UTC, it lies before the year 1 or after the year 9999.
        raise invalid_field(field, "must be a time of the years 1 to 9999") from None
