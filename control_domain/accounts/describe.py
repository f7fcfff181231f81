"""Accounts and people, as other documents include them."""

from typing import TypedDict

from control_domain.tables.accounts import Account, Person


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


def summarize_person(person: Person) -> PersonSummary:
    """Return the ID, name and address of the person, as other documents include them."""
    return {"id": person.public_id, "name": person.name, "email": person.email}
