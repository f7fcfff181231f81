"""HMAC-SHA256 over the body, in hexadecimal digits: what GitHub and Bitbucket sign with."""

import hmac
import re

from git_hosts.interface import Headers
from git_hosts.payloads.headers import proof_header
from git_hosts.webhook_events import WebhookSecret
from pipeline_contracts.errors import BadSignature

_ADVICE = "Give the webhook at the Git host the secret that Pharos has for it."
_FORM = re.compile("sha256=([0-9a-f]{64})")


def verify_hex(raw: bytes, headers: Headers, header: str, secret: WebhookSecret) -> None:
    """Raises `BadSignature` unless the header is `sha256=` and the digits that the secret gives for these bytes."""
    given = proof_header(headers, header, _ADVICE)
    form = _FORM.fullmatch(given)
    if form is None:
        raise BadSignature(
            f"The header {header} must be sha256= and 64 hexadecimal digits in small letters: sign with HMAC-SHA256."
        )
    wanted = hmac.digest(secret.value.encode(), raw, "sha256").hex()
    if not hmac.compare_digest(wanted, form[1]):
        raise BadSignature(
            f"The signature in {header} is not of this body and this secret. {_ADVICE} Let nothing on the way change "
            "the body."
        )
