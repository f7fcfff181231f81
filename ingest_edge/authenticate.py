"""Authenticate a request by its `Authorization` header."""

import hmac
from functools import lru_cache

from pipeline_contracts.credentials import (
    CredentialKind,
    digest_credential,
    is_well_formed,
    parse_bearer,
)
from pipeline_contracts.errors import InvalidCredential, StorageUnavailable, Unavailable
from storage_backends.key_directory.interface import KeyDirectory, KeyEntry

_NAMES = {CredentialKind.INGEST_KEY: "an ingest key", CredentialKind.MONITOR_KEY: "a monitor key"}


@lru_cache(4096)
def _credential_digest(authorization: str | None, kind: CredentialKind) -> bytes:
    """Return the digest of a well-formed credential. Raises `InvalidCredential`.

    Cached, because checksum and SHA-256 take a twentieth of the time of a small request. The key itself is looked up
    for each request.
    """
    credential = parse_bearer(authorization)
    if credential is None:
        raise InvalidCredential(f"Send {_NAMES[kind]} as 'Authorization: Bearer {kind.value}…'.")
    if not is_well_formed(credential, kind):
        raise InvalidCredential(
            f"This is not {_NAMES[kind]}: it must start with {kind.value} and have a valid checksum."
        )
    return digest_credential(credential)


async def authenticate(
    authorization: str | None, kind: CredentialKind, directory: KeyDirectory, now_ms: int
) -> KeyEntry:
    """Return the directory entry of the key in the header.

    Raises `InvalidCredential`, and `Unavailable` if the directory is unreachable. A mistyped key fails the checksum
    and costs no lookup.
    """
    digest = _credential_digest(authorization, kind)
    try:
        entry = await directory.find(digest)
    except StorageUnavailable as error:
        raise Unavailable("The key cannot be checked now.") from error
    if entry is None or not _is_this_key(entry, digest, kind):
        raise InvalidCredential("This key is not known, or was revoked.")
    if _has_expired(entry, now_ms):
        raise InvalidCredential("This key has expired.")
    return entry


def authenticate_now(
    authorization: str | None, kind: CredentialKind, directory: KeyDirectory, now_ms: int
) -> KeyEntry | None:
    """Return the entry of a valid key that the directory knows without waiting; None in all other cases."""
    try:
        digest = _credential_digest(authorization, kind)
    except InvalidCredential:
        return None
    entry = directory.find_known(digest)
    if entry is None or not _is_this_key(entry, digest, kind) or _has_expired(entry, now_ms):
        return None
    return entry


def _is_this_key(entry: KeyEntry, digest: bytes, kind: CredentialKind) -> bool:
    return entry.kind is kind and hmac.compare_digest(entry.digest, digest)


def _has_expired(entry: KeyEntry, now_ms: int) -> bool:
    return entry.expires_ms is not None and entry.expires_ms <= now_ms
