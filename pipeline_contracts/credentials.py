"""Create, check and digest bearer credentials.

A credential is a prefix, 32 random base62 characters, and 6 base62 characters with the CRC-32 of everything before
them. The checksum is no secret: it saves a directory lookup for mistyped and invented credentials.
"""

import hashlib
import secrets
import zlib
from enum import StrEnum

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ALPHABET_SET = frozenset(_ALPHABET)
_PREFIX_LENGTH = 8
_RANDOM_LENGTH = 32
_CHECKSUM_LENGTH = 6
CREDENTIAL_LENGTH = _PREFIX_LENGTH + _RANDOM_LENGTH + _CHECKSUM_LENGTH


class CredentialKind(StrEnum):
    """The prefix of each kind of credential."""

    API_TOKEN = "phr_pat_"
    INGEST_KEY = "phr_ing_"
    MONITOR_KEY = "phr_mon_"
    PING_KEY = "phr_png_"
    """Part of a heartbeat's ping URL."""
    ENVIRONMENT_PING_KEY = "phr_epk_"
    """Part of the ping URLs `/ping/<key>/<name>` of all heartbeats of an environment."""
    INVITATION = "phr_inv_"
    """Opens an account to the invited person, once."""
    SESSION = "phr_ses_"
    """In the cookie of a browser in which a person is signed in."""
    SIGN_IN_LINK = "phr_lnk_"
    """Sets the password of a person, once."""
    REPORT_SHARE = "phr_shr_"
    """Part of a link to the report of one site, which anybody who has the link can read."""
    SITE = "sit_"
    """A site's tracker ID. It is public, and permits only collection from the site's own origins."""
    HEARTBEAT_NAME = "heartbeat/"
    """No credential: the kind of the key directory's entries that find a heartbeat by its name."""


def _checksum(text: str) -> str:
    number = zlib.crc32(text.encode("ascii"))
    characters = []
    for _ in range(_CHECKSUM_LENGTH):
        number, digit = divmod(number, 62)
        characters.append(_ALPHABET[digit])
    return "".join(reversed(characters))


def make_credential(kind: CredentialKind) -> str:
    """Create a secret of this kind with 190 random bits. Show it once and store only its digest."""
    body = kind.value + "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM_LENGTH))
    return body + _checksum(body)


def is_well_formed(credential: str, kind: CredentialKind) -> bool:
    """True if prefix, length, alphabet and checksum are those of a credential of this kind."""
    if len(credential) != CREDENTIAL_LENGTH or not credential.startswith(kind.value):
        return False
    if not _ALPHABET_SET.issuperset(credential[_PREFIX_LENGTH:]):
        return False
    return _checksum(credential[:-_CHECKSUM_LENGTH]) == credential[-_CHECKSUM_LENGTH:]


def digest_credential(credential: str) -> bytes:
    """Return the 32 bytes under which a credential is stored and looked up (SHA-256: the secret has full entropy)."""
    return hashlib.sha256(credential.encode("utf-8", "surrogateescape")).digest()


def parse_bearer(authorization: str | None) -> str | None:
    """Return the credential of an `Authorization: Bearer …` header, or None. The scheme's case does not matter."""
    if authorization is None or len(authorization) > 512:
        return None
    scheme, _, credential = authorization.partition(" ")
    if scheme != "Bearer" and scheme.lower() != "bearer":
        return None
    return credential.strip() or None
