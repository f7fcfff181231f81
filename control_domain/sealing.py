"""Variables at rest: AES-256-GCM under keys that are made from `PHAROS_VARIABLES_KEY`.

To change the key, put the new secret before the old one (`new,old`): what is sealed from then on is sealed under
the new one, and the old one is needed until nothing is sealed under it any more.
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

_SHORTEST_SECRET = 32
_KEY_BYTES = 32
# A random nonce of 96 bits serves 2**32 messages a key (NIST SP 800-38D, 8.3).
_NONCE_BYTES = 12
_TAG_BYTES = 16
_DIGEST_DIGITS = 32


class CannotOpen(Exception):
    """Sealed variables that these keys do not open. The message says what to do and holds nothing secret."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """Variables as they are stored: which key sealed them, and the nonce with the ciphertext behind it."""

    key_id: str
    data: bytes = field(repr=False)


class SealingKeys:
    """The keys of a control plane: the first seals, all of them open."""

    __slots__ = ("_ciphers", "_current", "_digest_key", "_keys")

    def __init__(self, keys: Sequence[bytes]) -> None:
        """Of one or more keys of 32 bytes."""
        self._keys = {_key_id(key): key for key in keys}
        self._ciphers = {key_id: AESGCM(key) for key_id, key in self._keys.items()}
        self._current = _key_id(keys[0])
        self._digest_key = _derive(keys[0], b"pharos digests of variables")

    @classmethod
    def read(cls, text: str) -> "SealingKeys":
        """The keys of these secrets, which commas separate. Raises `ValueError` if one of them is too short."""
        given = [secret.strip() for secret in text.split(",")]
        if any(len(secret) < _SHORTEST_SECRET for secret in given):
            raise ValueError(f"each secret needs {_SHORTEST_SECRET} characters or more")
        return cls([_derive_key(secret) for secret in given])

    def __repr__(self) -> str:
        return f"SealingKeys({', '.join(self._ciphers)})"

    @property
    def key_id(self) -> str:
        """Of the key that seals now."""
        return self._current

    def seal(self, values: Mapping[str, str], owner: str) -> Sealed:
        """The values, sealed for their owner, such as an environment's public ID: for another one they do not open."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        plain = msgspec.json.encode(dict(values))
        sealed = self._ciphers[self._current].encrypt(nonce, plain, owner.encode())
        return Sealed(self._current, nonce + sealed)

    def open(self, sealed: Sealed, owner: str) -> dict[str, str]:
        """The values as they were sealed for this owner, in their order. Raises `CannotOpen`."""
        cipher = self._ciphers.get(sealed.key_id)
        if cipher is None:
            raise CannotOpen(
                f"The secrets of {owner} are sealed under the key {sealed.key_id}, which is not among "
                "PHAROS_VARIABLES_KEY. Put its secret behind the present one: new,old."
            )
        nonce, rest = sealed.data[:_NONCE_BYTES], sealed.data[_NONCE_BYTES:]
        try:
            if len(rest) < _TAG_BYTES:
                raise InvalidTag
            plain = cipher.decrypt(nonce, rest, owner.encode())
        except InvalidTag:
            raise CannotOpen(
                f"The sealed secrets of {owner} were altered, or are another owner's. Restore "
                "them from a backup or set them anew."
            ) from None
        return msgspec.json.decode(plain, type=dict[str, str])

    def digest(self, value: str, owner: str) -> str:
        """What tells whether two values of the same owner, a project's public ID, are alike: 32 hexadecimal digits that
        say nothing to whoever has no key. Another key gives others."""
        text = f"{owner}\0{value}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._digest_key, text, "sha256").hex()[:_DIGEST_DIGITS]

    def with_current_key(self, key_id: str) -> "SealingKeys":
        """These keys as they were while that one sealed: for its digests. Raises `CannotOpen`."""
        if key_id not in self._keys:
            raise CannotOpen(
                f"The key {key_id} is not among PHAROS_VARIABLES_KEY. Put its secret behind the present one: new,old."
            )
        others = (key for other, key in self._keys.items() if other != key_id)
        return SealingKeys([self._keys[key_id], *others])

    def is_current(self, key_id: str) -> bool:
        """Whether this is the key that seals. What another one sealed is due to be sealed again."""
        return key_id == self._current


def _derive_key(secret: str) -> bytes:
    """The key of a secret (HKDF, RFC 5869), which may be any text and serves nothing else."""
    return _derive(secret.encode("utf-8", "surrogateescape"), b"pharos variables")


def _derive(secret: bytes, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=purpose).derive(secret)


def _key_id(key: bytes) -> str:
    """A name for the key that tells nothing about it."""
    return hashlib.sha256(key).hexdigest()[:8]


def read_sealing_keys(text: str) -> SealingKeys:
    """The keys in `PHAROS_VARIABLES_KEY`. Raises `BadSettings`, which does not repeat them."""
    try:
        return SealingKeys.read(text)
    except ValueError as error:
        raise BadSettings(f"{PREFIX}VARIABLES_KEY: {error}") from None
