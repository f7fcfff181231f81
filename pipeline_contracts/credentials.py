"""Bearer credentials: how they look, how they are made, and how a false one is told without a look-up.

A credential is a prefix, 32 random base62 characters and 6 base62 characters of the CRC-32 of all that stands
before. The check sum is no secret: it only spares a directory look-up for what was mistyped or invented.
"""

import hashlib
import secrets
import zlib
from enum import StrEnum

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ALPHABET_SET = frozenset(_ALPHABET)
_PREFIX_LENGTH = 8
_RANDOM_LENGTH = 32
_SUM_LENGTH = 6
CREDENTIAL_LENGTH = _PREFIX_LENGTH + _RANDOM_LENGTH + _SUM_LENGTH


class CredentialKind(StrEnum):
    """The prefix of each kind of credential."""

    API_TOKEN = "phr_pat_"
    INGEST_KEY = "phr_ing_"
    MONITOR_KEY = "phr_mon_"
    PING_KEY = "phr_png_"
    """Part of a heartbeat's ping URL."""
    SITE = "sit_"
    """A site's tracker ID. It is no secret: what it opens is collection, from the site's origins alone."""


def _checksum(text: str) -> str:
    number = zlib.crc32(text.encode("ascii"))
    characters = []
    for _ in range(_SUM_LENGTH):
        number, digit = divmod(number, 62)
        characters.append(_ALPHABET[digit])
    return "".join(reversed(characters))


def make_credential(kind: CredentialKind) -> str:
    """A new secret of this kind, 190 bits from the system's random source. Shown once, stored as its digest."""
    body = kind.value + "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM_LENGTH))
    return body + _checksum(body)


def is_well_formed(credential: str, kind: CredentialKind) -> bool:
    """Whether prefix, length, alphabet and check sum are those of a credential of this kind."""
    if len(credential) != CREDENTIAL_LENGTH or not credential.startswith(kind.value):
        return False
    if not _ALPHABET_SET.issuperset(credential[_PREFIX_LENGTH:]):
        return False
    return _checksum(credential[:-_SUM_LENGTH]) == credential[-_SUM_LENGTH:]


def digest_credential(credential: str) -> bytes:
    """The 32 bytes under which a credential is stored and looked up (SHA-256; the secret has full entropy)."""
    return hashlib.sha256(credential.encode("utf-8", "surrogateescape")).digest()


def bearer_credential(authorization: str | None) -> str | None:
    """The credential of an `Authorization: Bearer …` header, or None. The scheme's case does not matter."""
    if authorization is None or len(authorization) > 512:
        return None
    scheme, _, credential = authorization.partition(" ")
    if scheme != "Bearer" and scheme.lower() != "bearer":
        return None
    return credential.strip() or None
