"""Signatures of Standard Webhooks 1.0 (github.com/standard-webhooks/standard-webhooks), as GitLab signs."""

import binascii
import hmac
import re
from base64 import b64decode, b64encode
from datetime import datetime

from git_hosts.interface import Headers
from git_hosts.payloads.headers import proof_header
from git_hosts.webhook_events import WebhookSecret
from pipeline_contracts.errors import BadSignature

SIGNING_PREFIX = "whsec_"
# A key has 24 to 64 bytes.
_SIGNING_BYTES = range(24, 65)
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
_ADVICE = "Give the webhook at the Git host the signing token that Pharos has for it."
MOST_SECONDS = 300
MOST_SIGNATURES = 16
_VERSION = b"v1,"
# A point would leave open where the ID ends in what is signed.
_ID = re.compile(r"[\x20-\x2d\x2f-\x7e]{1,255}")
_TIMESTAMP = re.compile("[0-9]{1,12}")


def signing_key(token: str) -> bytes | None:
    """The bytes that a signing token stands for; None for what is none."""
    if not token.startswith(SIGNING_PREFIX):
        return None
    try:
        key = b64decode(token.removeprefix(SIGNING_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) in _SIGNING_BYTES else None


def verify_standard(raw: bytes, headers: Headers, secret: WebhookSecret, now: datetime) -> None:
    """Raises `BadSignature` unless one of the signatures is of this message and not older or newer than 5 minutes."""
    signatures = proof_header(headers, SIGNATURE, _ADVICE).split(" ")
    message_id = proof_header(headers, ID, _ADVICE)
    timestamp = proof_header(headers, TIMESTAMP, _ADVICE)
    if _ID.fullmatch(message_id) is None:
        raise BadSignature(f"The header {ID} must be 1 to 255 printable ASCII characters without a point.")
    if len(signatures) > MOST_SIGNATURES:
        raise BadSignature(f"The header {SIGNATURE} has more than {MOST_SIGNATURES} signatures: send fewer.")
    _check_time(timestamp, now)
    wanted = _sign(f"{message_id}.{timestamp}.".encode() + raw, secret)
    if not _is_among(wanted, signatures):
        raise BadSignature(
            f"No signature in {SIGNATURE} is of this message and this signing token. {_ADVICE} Let nothing on the way "
            "change the message."
        )


def _check_time(timestamp: str, now: datetime) -> None:
    if _TIMESTAMP.fullmatch(timestamp) is None:
        raise BadSignature(f"The header {TIMESTAMP} must be seconds since 1970, in digits.")
    if abs(now.timestamp() - int(timestamp)) > MOST_SECONDS:
        raise BadSignature(
            f"The time in {TIMESTAMP} is more than {MOST_SECONDS} seconds away from the clock here. Set the clocks, "
            "and let the host send it again."
        )


def _sign(message: bytes, secret: WebhookSecret) -> bytes:
    key = signing_key(secret.value)
    if key is None:
        raise BadSignature("The secret that Pharos has for the webhook is no signing token: set another one.")
    return _VERSION + b64encode(hmac.digest(key, message, "sha256"))


def _is_among(wanted: bytes, signatures: list[str]) -> bool:
    """Compares all of them: how long that takes tells neither which one was good nor how much of it."""
    found = False
    for signature in signatures:
        found |= hmac.compare_digest(wanted, signature.encode("utf-8", "surrogatepass"))
    return found
