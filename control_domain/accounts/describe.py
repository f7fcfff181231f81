"""Accounts, the people in them, and tokens as documents for an operator."""

from datetime import datetime
from typing import Any

from control_domain.accounts.members import Member
from control_domain.keys import is_live
from control_domain.tables.accounts import Account, ApiToken, Person
from pipeline_contracts.times import format_time


def summarize_account(account: Account) -> dict[str, Any]:
    """The account as other documents name it."""
    return {"id": account.public_id, "name": account.name, "slug": account.slug}


def describe_account(account: Account) -> dict[str, Any]:
    """An account; `number` is its numeric ID."""
    return {
        **summarize_account(account),
        "number": account.id,
        "plan": account.plan,
        "limits": {
            "ingest_events_per_second": account.ingest_rate,
            "ingest_burst": account.ingest_burst,
        },
        "created_at": format_time(account.created_at),
    }


def summarize_person(person: Person) -> dict[str, Any]:
    """The person as other documents name them."""
    return {"id": person.public_id, "name": person.name, "email": person.email}


def describe_member(member: Member) -> dict[str, Any]:
    """A person in an account; `number` is the person's numeric ID."""
    return {
        **summarize_person(member.person),
        "number": member.person.id,
        "role": member.role,
        "account": summarize_account(member.account),
    }


def describe_token(token: ApiToken, account: Account, person: Person, now: datetime) -> dict[str, Any]:
    """A token, never its secret; `state` is live, expired or revoked."""
    state = "live" if is_live(token, now) else "expired" if token.revoked_at is None else "revoked"
    return {
        "id": token.id,
        "name": token.name,
        "account": summarize_account(account),
        "person": summarize_person(person),
        "scopes": token.scopes.split(),
        "state": state,
        "created_at": format_time(token.created_at),
        "expires_at": _told(token.expires_at),
        "last_used_at": _told(token.last_used_at),
        "revoked_at": _told(token.revoked_at),
    }


def _told(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)
