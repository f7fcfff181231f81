"""Encryption of variables and secrets at rest: AES-256-GCM with keys derived from `PHAROS_VARIABLES_KEY`.

To rotate the key, put the new secret before the old one (`new,old`): new values are sealed with the first key. The old
secret is needed until all values are sealed again.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from pipeline_contracts.settings import PREFIX, BadSettings

_MIN_SECRET_LENGTH = 32
_KEY_BYTES = 32
# Random nonces of 96 bits are safe for 2**32 messages per key (NIST SP 800-38D, 8.3).
_NONCE_BYTES = 12
_TAG_BYTES = 16
_DIGEST_DIGITS = 32


class CannotOpen(Exception):
    """These keys do not open the sealed values. The message says what to do and contains no secret."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """Sealed values as they are stored: the ID of the key, and the nonce followed by the ciphertext."""

    key_id: str
    data: bytes = field(repr=False)


class SealingKeys:
    """The keys of a control plane: the first key seals, and all keys open."""

    __slots__ = ("_ciphers", "_current", "_digest_key", "_keys")

    def __init__(self, keys: Sequence[bytes]) -> None:
        """`keys`: one or more keys of 32 bytes."""
        self._keys = {_key_id(key): key for key in keys}
        self._ciphers = {key_id: AESGCM(key) for key_id, key in self._keys.items()}
        self._current = _key_id(keys[0])
        self._digest_key = _derive(keys[0], b"pharos digests of variables")

    @classmethod
    def read(cls, text: str) -> "SealingKeys":
        """Derive the keys from comma-separated secrets. Raises `ValueError` if a secret is too short."""
        secrets_ = [secret.strip() for secret in text.split(",")]
        if any(len(secret) < _MIN_SECRET_LENGTH for secret in secrets_):
            raise ValueError(f"each secret needs {_MIN_SECRET_LENGTH} characters or more")
        return cls([_derive_key(secret) for secret in secrets_])

    def __repr__(self) -> str:
        return f"SealingKeys({', '.join(self._ciphers)})"

    @property
    def key_id(self) -> str:
        """The ID of the key that seals now."""
        return self._current

    def seal(self, values: Mapping[str, str], owner: str) -> Sealed:
        """Seal the values for their owner (such as the public ID of an environment); they open only for this owner."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        plain = msgspec.json.encode(dict(values))
        sealed = self._ciphers[self._current].encrypt(nonce, plain, owner.encode())
        return Sealed(self._current, nonce + sealed)

    def open(self, sealed: Sealed, owner: str) -> dict[str, str]:
        """Return the values that were sealed for this owner, in their order. Raises `CannotOpen`."""
        cipher = self._ciphers.get(sealed.key_id)
        if cipher is None:
            raise CannotOpen(
                f"The secrets of {owner} are sealed under the key {sealed.key_id}, which is not in "
                "PHAROS_VARIABLES_KEY. Put its secret after the present one: new,old."
            )
        nonce, rest = sealed.data[:_NONCE_BYTES], sealed.data[_NONCE_BYTES:]
        try:
            if len(rest) < _TAG_BYTES:
                raise InvalidTag
            plain = cipher.decrypt(nonce, rest, owner.encode())
        except InvalidTag:
            raise CannotOpen(
                f"The sealed secrets of {owner} were altered or belong to another owner. Restore "
                "them from a backup or set them again."
            ) from None
        return msgspec.json.decode(plain, type=dict[str, str])

    def digest(self, value: str, owner: str) -> str:
        """Return 32 hexadecimal digits that are equal for equal values of one owner (the public ID of a project).

        A keyed HMAC: it reveals nothing without the key, and differs for each key.
        """
        text = f"{owner}\0{value}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._digest_key, text, "sha256").hex()[:_DIGEST_DIGITS]

    def with_current_key(self, key_id: str) -> "SealingKeys":
        """Return the same keys with `key_id` as the one that seals and makes digests. Raises `CannotOpen`."""
        if key_id not in self._keys:
            raise CannotOpen(
                f"The key {key_id} is not in PHAROS_VARIABLES_KEY. Put its secret after the present one: new,old."
            )
        others = (key for other, key in self._keys.items() if other != key_id)
        return SealingKeys([self._keys[key_id], *others])

    def is_current(self, key_id: str) -> bool:
        """Return True if this is the key that seals; values that another key sealed must be sealed again."""
        return key_id == self._current


def _derive_key(secret: str) -> bytes:
    """Derive the key from a secret of any text (HKDF, RFC 5869)."""
    return _derive(secret.encode("utf-8", "surrogateescape"), b"pharos variables")


def _derive(secret: bytes, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=purpose).derive(secret)


def _key_id(key: bytes) -> str:
    """Return an ID of the key that reveals nothing about it."""
    return hashlib.sha256(key).hexdigest()[:8]


def read_sealing_keys(text: str) -> SealingKeys:
    """Return the keys of `PHAROS_VARIABLES_KEY`. Raises `BadSettings`, whose message does not repeat the secrets."""
    try:
        return SealingKeys.read(text)
    except ValueError as error:
        raise BadSettings(f"{PREFIX}VARIABLES_KEY: {error}") from None
