"""From the `Authorization` header to what the key opens."""

import hmac

from pipeline_contracts.credentials import (
    CredentialKind,
    bearer_credential,
    digest_credential,
    is_well_formed,
)
from pipeline_contracts.errors import InvalidCredential, StorageUnavailable, Unavailable
from storage_backends.key_directory.interface import KeyDirectory, KeyEntry

_NAMES = {CredentialKind.INGEST_KEY: "an ingest key", CredentialKind.MONITOR_KEY: "a monitor key"}


async def authenticate(
    authorization: str | None, kind: CredentialKind, directory: KeyDirectory, now_ms: int
) -> KeyEntry:
    """The entry of the key in the header.

    The check sum comes first: a mistyped key costs no look-up. Raises `InvalidCredential`, and `Unavailable`
    when the directory cannot tell.
    """
    credential = bearer_credential(authorization)
    if credential is None:
        raise InvalidCredential(f"Send {_NAMES[kind]} as 'Authorization: Bearer {kind.value}…'.")
    if not is_well_formed(credential, kind):
        raise InvalidCredential(
            f"This is not {_NAMES[kind]}: it starts with {kind.value}, and its check sum must hold."
        )
    digest = digest_credential(credential)
    try:
        entry = await directory.find(digest)
    except StorageUnavailable as error:
        raise Unavailable("The key cannot be checked now.") from error
    if entry is None or entry.kind is not kind or not hmac.compare_digest(entry.digest, digest):
        raise InvalidCredential("This key is not known, or was revoked.")
    if entry.expires_ms is not None and entry.expires_ms <= now_ms:
        raise InvalidCredential("This key has expired.")
    return entry
