"""Encodes key entries for Redis as MessagePack. They are stored under the digest of the key,
without the secret."""

import msgspec

from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.rate_limits import RateLimit
from storage_backends.key_directory.interface import KeyEntry, SiteEntry


class _Stored(msgspec.Struct, array_like=True, frozen=True):
    """A key entry as it is stored. Add fields only at the end and with a default, because older
    versions read these bytes."""

    kind: str
    account_id: str
    project_id: str
    environment_id: str
    rate: float
    burst: int
    expires_ms: int | None = None
    monitor: str | None = None
    site_id: int | None = None
    origins: tuple[str, ...] = ()
    may_create: bool = False
    is_application_key: bool = False


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(_Stored)


def encode_entry(entry: KeyEntry) -> bytes:
    """Encode all fields of the entry except the digest."""
    return _encode(
        _Stored(
            entry.kind.value,
            entry.account_id,
            entry.project_id,
            entry.environment_id,
            entry.limit.rate,
            entry.limit.burst,
            entry.expires_ms,
            entry.monitor,
            None if entry.site is None else entry.site.site_id,
            () if entry.site is None else entry.site.origins,
            entry.may_create,
            entry.is_application_key,
        )
    )


def decode_entry(digest: bytes, data: bytes) -> KeyEntry:
    """Decode the result of `encode_entry` for the key with this digest."""
    stored = _decoder.decode(data)
    return KeyEntry(
        digest,
        CredentialKind(stored.kind),
        stored.account_id,
        stored.project_id,
        stored.environment_id,
        RateLimit(stored.rate, stored.burst),
        stored.expires_ms,
        stored.monitor,
        None if stored.site_id is None else SiteEntry(stored.site_id, stored.origins),
        stored.may_create,
        stored.is_application_key,
    )
