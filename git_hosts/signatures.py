"""Verifies signatures of webhook deliveries.

GitHub and Bitbucket sign with HMAC-SHA256 over the body, in hexadecimal digits. GitLab signs as Standard Webhooks 1.0
(github.com/standard-webhooks/standard-webhooks).
"""

import binascii
import hmac
import re
from base64 import b64decode, b64encode
from datetime import datetime

from git_hosts.interface import Headers
from git_hosts.payloads.request import read_signature_header
from git_hosts.webhook_events import WebhookSecret
from pipeline_contracts.errors import BadSignature

SIGNING_PREFIX = "whsec_"
# A key has 24 to 64 bytes.
_KEY_BYTES = range(24, 65)
ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER = "webhook-id", "webhook-timestamp", "webhook-signature"
_TOKEN_ADVICE = "Give the webhook at the Git host the signing token that Pharos has for it."
MAX_CLOCK_SKEW_SECONDS = 300
MAX_SIGNATURES = 16
_VERSION = b"v1,"
# No point: in the signed message a point ends the ID.
_ID = re.compile(r"[\x20-\x2d\x2f-\x7e]{1,255}")
_TIMESTAMP = re.compile("[0-9]{1,12}")


_HEX_SIGNATURE = re.compile("sha256=([0-9a-f]{64})")
_SECRET_ADVICE = "Give the webhook at the Git host the secret that Pharos has for it."


def verify_hex_signature(raw: bytes, headers: Headers, header: str, secret: WebhookSecret) -> None:
    """Raise `BadSignature` unless the header is `sha256=` and the HMAC of these bytes with the secret."""
    value = read_signature_header(headers, header, _SECRET_ADVICE)
    match = _HEX_SIGNATURE.fullmatch(value)
    if match is None:
        raise BadSignature(
            f"The header {header} must be sha256= and 64 hexadecimal digits in small letters: sign with HMAC-SHA256."
        )
    expected = hmac.digest(secret.value.encode(), raw, "sha256").hex()
    if not hmac.compare_digest(expected, match[1]):
        raise BadSignature(
            f"The signature in {header} is not of this body and this secret. {_SECRET_ADVICE} "
            "Let nothing on the way change the body."
        )


def decode_signing_key(token: str) -> bytes | None:
    """Return the key in a signing token; None if the token is not well formed."""
    if not token.startswith(SIGNING_PREFIX):
        return None
    try:
        key = b64decode(token.removeprefix(SIGNING_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) in _KEY_BYTES else None


def verify_standard_webhook(raw: bytes, headers: Headers, secret: WebhookSecret, now: datetime) -> None:
    """Raise `BadSignature` unless one of the signatures is valid and its time is at most 5 minutes away."""
    signatures = read_signature_header(headers, SIGNATURE_HEADER, _TOKEN_ADVICE).split(" ")
    message_id = read_signature_header(headers, ID_HEADER, _TOKEN_ADVICE)
    timestamp = read_signature_header(headers, TIMESTAMP_HEADER, _TOKEN_ADVICE)
    if _ID.fullmatch(message_id) is None:
        raise BadSignature(
            f"The header {ID_HEADER} must be 1 to 255 printable ASCII characters without a point."
        )
    if len(signatures) > MAX_SIGNATURES:
        raise BadSignature(
            f"The header {SIGNATURE_HEADER} has more than {MAX_SIGNATURES} signatures: send fewer."
        )
    _check_time(timestamp, now)
    expected = _sign(f"{message_id}.{timestamp}.".encode() + raw, secret)
    if not _is_among(expected, signatures):
        raise BadSignature(
            f"No signature in {SIGNATURE_HEADER} is of this message and this signing token. {_TOKEN_ADVICE} "
            "Let nothing on the way change the message."
        )


def _check_time(timestamp: str, now: datetime) -> None:
    if _TIMESTAMP.fullmatch(timestamp) is None:
        raise BadSignature(f"The header {TIMESTAMP_HEADER} must be seconds since 1970, in digits.")
    if abs(now.timestamp() - int(timestamp)) > MAX_CLOCK_SKEW_SECONDS:
        raise BadSignature(
            f"The time in {TIMESTAMP_HEADER} is more than {MAX_CLOCK_SKEW_SECONDS} seconds away from the clock here. "
            "Set the clocks, and let the host send it again."
        )


def _sign(message: bytes, secret: WebhookSecret) -> bytes:
    key = decode_signing_key(secret.value)
    if key is None:
        raise BadSignature("The secret that Pharos has for the webhook is no signing token: set another one.")
    return _VERSION + b64encode(hmac.digest(key, message, "sha256"))


def _is_among(expected: bytes, signatures: list[str]) -> bool:
    """Compare all signatures, so that the time reveals neither which one matched nor how much of it."""
    found = False
    for signature in signatures:
        found |= hmac.compare_digest(expected, signature.encode("utf-8", "surrogatepass"))
    return found
