"""Public identifiers: `prj_01jz…` (prefix and UUIDv7) and receipt IDs, in Crockford's base32, lower case."""

import hashlib
import hmac
import secrets

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}
# Two characters at a time: a receipt has 32, made for each batch.
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]

_RECEIPT_PREFIX = "rcp_"
_RECEIPT_BYTES = 15
_SEAL_BYTES = 5
_RECEIPT_LENGTH = len(_RECEIPT_PREFIX) + (_RECEIPT_BYTES + _SEAL_BYTES) * 8 // 5
_RECEIPT_NAME_LENGTH = len(_RECEIPT_PREFIX) + _RECEIPT_BYTES * 8 // 5


def encode_base32(data: bytes) -> str:
    """Crockford's base32 without padding, most significant bit first; bits are padded on the left."""
    number = int.from_bytes(data)
    length = (len(data) * 8 + 4) // 5
    pairs = "".join([_PAIRS[(number >> shift) & 1023] for shift in range(10 * (length // 2 - 1), -1, -10)])
    return pairs if length % 2 == 0 else _ALPHABET[number >> 5 * (length - 1)] + pairs


def make_identifier(prefix: str, now_ms: int) -> str:
    """`prefix_` and a UUIDv7 (RFC 9562) of 26 characters: sorts by time of making, 74 random bits."""
    random = secrets.randbits(74)
    value = (now_ms & ((1 << 48) - 1)) << 80
    value |= 0x7 << 76 | (random >> 62) << 64 | 0b10 << 62 | (random & ((1 << 62) - 1))
    return f"{prefix}_{encode_base32(value.to_bytes(16))}"


def receipt_name(environment_id: str, batch_id: str) -> str:
    """The part of a receipt ID that names the batch: `rcp_` and 24 characters, a 120-bit hash.

    The same batch of the same environment always has the same name; a resend therefore finds the first report.
    """
    digest = hashlib.blake2b(digest_size=_RECEIPT_BYTES, person=b"pharos-receipt")
    digest.update(environment_id.encode())
    digest.update(b"\0")
    digest.update(batch_id.encode())
    return _RECEIPT_PREFIX + encode_base32(digest.digest())


def seal_receipt(name: str, environment_id: str, seal_key: bytes) -> str:
    """The receipt ID that a client sees: the name and 8 characters (40 bits) of an HMAC-SHA-256.

    The seal lets a reader tell an ID that an edge has issued from an invented one although nothing was
    written for it yet; it binds the environment, so that another environment's receipt is unknown.
    """
    mac = hmac.digest(seal_key, f"{environment_id}\0{name}".encode(), "sha256")
    return name + encode_base32(mac[:_SEAL_BYTES])


def open_receipt(receipt_id: str, environment_id: str, seal_key: bytes) -> str | None:
    """The name in a receipt ID that was issued to this environment; None for any other text."""
    if len(receipt_id) != _RECEIPT_LENGTH or not receipt_id.startswith(_RECEIPT_PREFIX):
        return None
    if any(character not in _VALUES for character in receipt_id[len(_RECEIPT_PREFIX) :]):
        return None
    name = receipt_id[:_RECEIPT_NAME_LENGTH]
    genuine = seal_receipt(name, environment_id, seal_key)
    return name if hmac.compare_digest(genuine, receipt_id) else None
