"""The audit log: who changed what, and when."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.accounts import Account, Person
from control_domain.tables.audit import AuditEntry
from pipeline_contracts.times import format_time


@dataclass(frozen=True, slots=True)
class Actor:
    """The person or token behind a change, and where the request came from."""

    source: str
    """An address, or `operator` and the user's name on the machine."""
    person_id: int | None = None
    token_id: int | None = None
    request_id: str | None = None


PING = Actor("ping")
"""The actor of heartbeats that pings create."""


class _StoredActor(Protocol):
    """A row with the actor of a change that is made later."""

    @property
    def source(self) -> str: ...
    @property
    def person_id(self) -> int | None: ...
    @property
    def token_id(self) -> int | None: ...
    @property
    def request_id(self) -> str | None: ...


def write_actor(actor: Actor) -> dict[str, Any]:
    """Return the columns of a row that stores the actor, which `read_actor` reads."""
    return {
        "source": actor.source[:100],
        "person_id": actor.person_id,
        "token_id": actor.token_id,
        "request_id": actor.request_id,
    }


def read_actor(row: _StoredActor) -> Actor:
    """Return the actor that is stored in the row."""
    return Actor(row.source, row.person_id, row.token_id, row.request_id)


def make_operator(user: str) -> Actor:
    """Return the actor for a command of the operator; `user` is their name on the machine."""
    name = "".join(c for c in user if c.isprintable())
    return Actor(source=f"operator {name}".strip()[:100])


def record_audit_entry(
    session: AsyncSession,
    actor: Actor,
    account_id: int | None,
    action: str,
    subject: str,
    now: datetime,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Add an audit entry in the transaction of the change itself: the log has the entry if and only if the change is
    committed.

    `account_id` is None for a change of all accounts. `details` are for people to read and must contain no secret and
    no value of a variable.
    """
    session.add(
        AuditEntry(
            account_id=account_id,
            at=now,
            person_id=actor.person_id,
            token_id=actor.token_id,
            action=action,
            subject=subject,
            details=json.dumps(details or {}),
            source=actor.source[:100],
            request_id=actor.request_id,
        )
    )


async def list_newest_entries(
    session: AsyncSession, limit: int, subject: str | None = None
) -> Sequence[dict[str, Any]]:
    """Return the newest entries of all accounts, newest first; with `subject`, only the entries of that subject.

    `subject` is a kind and an ID (`environment env_01jz…`) or the ID alone.
    """
    # Account scope: the operator reads the log of all accounts.
    query = (
        select(AuditEntry, Account.public_id, Person.email)
        .outerjoin(Account, Account.id == AuditEntry.account_id)
        .outerjoin(Person, Person.id == AuditEntry.person_id)
        .order_by(AuditEntry.id.desc())
        .limit(limit)
    )
    if subject is not None:
        of_kind = AuditEntry.subject.endswith(f" {subject}", autoescape=True)
        query = query.where((AuditEntry.subject == subject) | of_kind)
    return [
        {
            "id": entry.id,
            "at": format_time(entry.at),
            "account_id": account,
            "person": person,
            "token_id": entry.token_id,
            "action": entry.action,
            "subject": entry.subject,
            "details": json.loads(entry.details),
            "source": entry.source,
            "request_id": entry.request_id,
        }
        for entry, account, person in await session.execute(query)
    ]
