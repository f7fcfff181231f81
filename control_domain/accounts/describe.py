"""Documents of accounts, their members and API tokens, for operators."""

from datetime import datetime
from typing import Any, TypedDict

from control_domain.accounts.members import Member
from control_domain.keys import is_live
from control_domain.tables.accounts import Account, ApiToken, Person
from pipeline_contracts.times import format_time


class AccountSummary(TypedDict):
    """An account, as other documents include it."""

    id: str
    name: str
    slug: str


class PersonSummary(TypedDict):
    """A person, as other documents include them."""

    id: str
    name: str
    email: str


def summarize_account(account: Account) -> AccountSummary:
    """Return the ID, name and slug of the account, as other documents include them."""
    return {"id": account.public_id, "name": account.name, "slug": account.slug}


def describe_account(account: Account) -> dict[str, Any]:
    """Return the document of an account; `number` is its numeric ID."""
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


def summarize_person(person: Person) -> PersonSummary:
    """Return the ID, name and address of the person, as other documents include them."""
    return {"id": person.public_id, "name": person.name, "email": person.email}


def describe_member(member: Member) -> dict[str, Any]:
    """Return the document of a member; `number` is the person's numeric ID."""
    return {
        **summarize_person(member.person),
        "number": member.person.id,
        "role": member.role,
        "account": summarize_account(member.account),
    }


def describe_token(token: ApiToken, account: Account, person: Person, now: datetime) -> dict[str, Any]:
    """Return the document of a token, without its secret; `state` is live, expired or revoked."""
    state = "live" if is_live(token, now) else "expired" if token.revoked_at is None else "revoked"
    return {
        "id": token.id,
        "name": token.name,
        "account": summarize_account(account),
        "person": summarize_person(person),
        "scopes": token.scopes.split(),
        "state": state,
        "created_at": format_time(token.created_at),
        "expires_at": _format_optional(token.expires_at),
        "last_used_at": _format_optional(token.last_used_at),
        "revoked_at": _format_optional(token.revoked_at),
    }


def _format_optional(time: datetime | None) -> str | None:
    return None if time is None else format_time(time)
