"""Create and check identifiers: public IDs like `prj_01jz…` (prefix and UUIDv7), receipt IDs and request IDs.

The first two are in Crockford's base32, lower case.
"""

import hashlib
import hmac
import itertools
import re
import secrets
from functools import lru_cache

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}
# Two characters at a time, for speed: each batch gets a receipt of 32 characters.
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]

_RECEIPT_PREFIX = "rcp_"
_RECEIPT_BYTES = 15
_SEAL_BYTES = 5
_RECEIPT_LENGTH = len(_RECEIPT_PREFIX) + (_RECEIPT_BYTES + _SEAL_BYTES) * 8 // 5
_RECEIPT_HASH = hashlib.blake2b(digest_size=_RECEIPT_BYTES, person=b"pharos-receipt")
_RECEIPT_NAME_LENGTH = len(_RECEIPT_PREFIX) + _RECEIPT_BYTES * 8 // 5

_CLIENT_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
# A random prefix for each process and a counter: as unique as a random ID, at a tenth of the cost.
_REQUEST_PREFIX = secrets.token_hex(8)
_request_numbers = itertools.count(1)


def encode_base32(data: bytes) -> str:
    """Encode in Crockford's base32, most significant bit first, padded with zero bits on the left."""
    number = int.from_bytes(data)
    length = (len(data) * 8 + 4) // 5
    pairs = "".join([_PAIRS[(number >> shift) & 1023] for shift in range(10 * (length // 2 - 1), -1, -10)])
    return pairs if length % 2 == 0 else _ALPHABET[number >> 5 * (length - 1)] + pairs


def make_identifier(prefix: str, now_ms: int) -> str:
    """Create `prefix_` and a UUIDv7 (RFC 9562) of 26 characters: sorts by creation time, 74 random bits."""
    random = secrets.randbits(74)
    value = (now_ms & ((1 << 48) - 1)) << 80
    value |= 0x7 << 76 | (random >> 62) << 64 | 0b10 << 62 | (random & ((1 << 62) - 1))
    return f"{prefix}_{encode_base32(value.to_bytes(16))}"


def receipt_name(environment_id: str, batch_id: str) -> str:
    """Return the part of a receipt ID that names the batch: `rcp_` and 24 characters, a 120-bit hash.

    The same batch of the same environment always has the same name, so that a resent batch has the same receipt.
    """
    digest = _RECEIPT_HASH.copy()
    digest.update(f"{environment_id}\0{batch_id}".encode())
    n = int.from_bytes(digest.digest())
    # Unrolled, because each batch needs it.
    return (
        f"{_RECEIPT_PREFIX}{_PAIRS[n >> 110]}{_PAIRS[n >> 100 & 1023]}{_PAIRS[n >> 90 & 1023]}"
        f"{_PAIRS[n >> 80 & 1023]}{_PAIRS[n >> 70 & 1023]}{_PAIRS[n >> 60 & 1023]}{_PAIRS[n >> 50 & 1023]}"
        f"{_PAIRS[n >> 40 & 1023]}{_PAIRS[n >> 30 & 1023]}{_PAIRS[n >> 20 & 1023]}{_PAIRS[n >> 10 & 1023]}"
        f"{_PAIRS[n & 1023]}"
    )


def seal_receipt(name: str, environment_id: str, seal_key: bytes) -> str:
    """Return the receipt ID for the client: the name and 8 characters (40 bits) of an HMAC-SHA-256.

    The seal proves that an edge has issued the ID to this environment, before anything is stored for it.
    """
    mac = _keyed_hash(seal_key).copy()
    mac.update(f"{environment_id}\0{name}".encode())
    return name + encode_base32(mac.digest()[:_SEAL_BYTES])


@lru_cache(16)
def _keyed_hash(key: bytes) -> hmac.HMAC:
    # Copying the keyed hash takes less time than creating it again.
    return hmac.new(key, digestmod="sha256")


def open_receipt(receipt_id: str, environment_id: str, seal_key: bytes) -> str | None:
    """Return the name in a receipt ID that was issued to this environment; None for any other text."""
    if len(receipt_id) != _RECEIPT_LENGTH or not receipt_id.startswith(_RECEIPT_PREFIX):
        return None
    if any(character not in _VALUES for character in receipt_id[len(_RECEIPT_PREFIX) :]):
        return None
    name = receipt_id[:_RECEIPT_NAME_LENGTH]
    genuine = seal_receipt(name, environment_id, seal_key)
    return name if hmac.compare_digest(genuine, receipt_id) else None


def choose_request_id(client_id: str | None) -> str:
    """Return the client's request ID if it is 1 to 128 plain characters, else a new one."""
    if client_id is not None and _CLIENT_REQUEST_ID.fullmatch(client_id):
        return client_id
    return f"{_REQUEST_PREFIX}{next(_request_numbers):08x}"
