"""Ingest, monitor and API keys: whether a key is live, and its entry in the key directory."""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Protocol

from msgspec import Meta

from control_domain.tables.accounts import Account
from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.errors import StorageUnavailable, invalid_field
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.times import to_epoch_ms
from storage_backends.key_directory.interface import KeyDirectory, KeyEntry

logger = logging.getLogger(__name__)

_LONGEST_LIFE = timedelta(days=3650)

KeyState = Literal["live", "expired", "revoked"]
ExpiresAt = Annotated[
    datetime,
    Meta(
        tz=True,
        description="When the key stops working, within 10 years. Without it and `expires_in`, never.",
    ),
]
ExpiresIn = Annotated[
    int,
    Meta(
        ge=60,
        le=int(_LONGEST_LIFE.total_seconds()),
        description="Seconds from now, in place of `expires_at`.",
    ),
]


class KeyRow(Protocol):
    """A row of any table of keys."""

    id: Any
    digest: Any
    expires_at: Any
    revoked_at: Any


def is_live(key: KeyRow, now: datetime) -> bool:
    """Return True unless the key is revoked or expired."""
    return key.revoked_at is None and (key.expires_at is None or key.expires_at > now)


def get_key_state(key: KeyRow, now: datetime) -> KeyState:
    """Return whether the key is live, or why not."""
    if key.revoked_at is not None:
        return "revoked"
    return "live" if is_live(key, now) else "expired"


def choose_expiry(expires_at: datetime | None, expires_in: int | None, now: datetime) -> datetime | None:
    """Return the time at which a new key expires; None if both are left out. `expires_in`: seconds from `now`.

    Raises `InvalidInput` if both are given.
    """
    if expires_in is None:
        return expires_at
    if expires_at is not None:
        raise invalid_field("expires_in", "must be left out if expires_at is given")
    return now + timedelta(seconds=expires_in)


def check_expiry(expires_at: datetime | None, now: datetime) -> None:
    """Raise `InvalidInput` unless a new key may expire at this time. None, for a key that never expires, is valid."""
    if expires_at is not None and not now < expires_at <= now + _LONGEST_LIFE:
        raise invalid_field(
            "expires_at", f"must be in the future, at most {_LONGEST_LIFE.days} days from now"
        )


def make_key_entry(
    key: KeyRow,
    kind: CredentialKind,
    account: Account,
    project_id: str,
    environment_id: str,
    monitor: str | None = None,
    *,
    may_create: bool = False,
) -> KeyEntry:
    """Return the entry of the key in the key directory. `project_id` and `environment_id` are public IDs."""
    return KeyEntry(
        digest=key.digest,
        kind=kind,
        account_id=account.public_id,
        project_id=project_id,
        environment_id=environment_id,
        limit=RateLimit(account.ingest_rate, account.ingest_burst),
        expires_ms=None if key.expires_at is None else to_epoch_ms(key.expires_at),
        monitor=monitor,
        may_create=may_create,
    )


async def revoke_published_keys(directory: KeyDirectory, digests: Sequence[bytes]) -> None:
    """Revoke the keys in the key directory; no edge accepts them after 5 s. Call this after the commit.

    If the key directory cannot be reached, the edges see the revocation after the next publication of all keys.
    """
    try:
        for digest in digests:
            await directory.revoke(digest)
    except StorageUnavailable as error:
        logger.warning("%s", describe_uninformed_edges(str(error)))


def describe_uninformed_edges(cause: str) -> str:
    """Return the message that a change was made but has not reached the edges yet. `cause`: a sentence with the
    reason."""
    return (
        f"The edges could not be informed: {cause} They keep the former state until a control plane publishes all "
        "keys again, within a minute after Redis and the database answer again."
    )
