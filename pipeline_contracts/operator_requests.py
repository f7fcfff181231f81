"""The requests of the operator's door: the few operations across all accounts.

Everything else goes through the management API. The requests go over the operator socket of `pharos up`, or run
directly on the configured engines.
"""

from typing import Annotated

import msgspec


class ListAccounts(msgspec.Struct, frozen=True, tag="list-accounts", kw_only=True):
    """List all accounts with their limits."""


class CreateAccount(msgspec.Struct, frozen=True, tag="create-account", kw_only=True):
    """Create an account with its owner."""

    name: str
    slug: str | None
    owner_name: str
    owner_email: str


class LimitAccount(msgspec.Struct, frozen=True, tag="limit-account", kw_only=True):
    """Set the ingest rate limit of an account."""

    account: str | None
    rate: float
    burst: int


class CreateToken(msgspec.Struct, frozen=True, tag="create-token", kw_only=True):
    """Create an API token. None means: the only account, its only owner, all scopes, a generated name, no expiry."""

    account: str | None
    person: str | None
    scopes: list[str] | None
    name: str | None
    lifetime_seconds: Annotated[int, msgspec.Meta(ge=60, le=3650 * 86_400)] | None


class CreateSignInLink(msgspec.Struct, frozen=True, tag="create-sign-in-link", kw_only=True):
    """Create a link with which a person sets a password; None for the only owner."""

    email: str | None


class RotateKey(msgspec.Struct, frozen=True, tag="rotate-key", kw_only=True):
    """Seal some of the stored secrets again with the current key."""


OperatorRequest = ListAccounts | CreateAccount | LimitAccount | CreateToken | CreateSignInLink | RotateKey


class OperatorCall(msgspec.Struct, frozen=True, kw_only=True):
    """A request, and the name of the user on the machine, for the audit log."""

    operator: str
    request: OperatorRequest
