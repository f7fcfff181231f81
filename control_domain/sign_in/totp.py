"""Time-based one-time passwords (RFC 6238): six digits, 30 s, HMAC-SHA-1, which all authenticators support."""

import base64
import hmac
import secrets
from urllib.parse import quote, urlencode

PERIOD_SECONDS = 30
DIGITS = 6
# The key length that RFC 4226 recommends for HMAC-SHA-1.
_SECRET_BYTES = 20
# Periods before and after now: clocks of phones differ, and typing takes time.
_STEPS = (0, -1, 1)


def make_totp_secret() -> str:
    """Return a new secret in base 32."""
    return base64.b32encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def make_totp_code(secret: str, step: int) -> str:
    """Return the code of a time step, the number of periods since 1970."""
    mac = hmac.digest(base64.b32decode(secret), step.to_bytes(8, "big"), "sha1")
    offset = mac[-1] & 15
    number = int.from_bytes(mac[offset : offset + 4], "big") & 0x7FFF_FFFF
    return f"{number % 10**DIGITS:0{DIGITS}}"


def find_totp_step(secret: str, code: str, seconds: float) -> int | None:
    """Return the time step of this code, within one period of now; None if the code is wrong."""
    now = int(seconds // PERIOD_SECONDS)
    # Compare with all codes, so that the duration reveals nothing.
    found = [
        step
        for step in _STEPS
        if now + step >= 0 and hmac.compare_digest(make_totp_code(secret, now + step), code)
    ]
    return now + found[0] if found else None


def make_totp_url(secret: str, email: str, issuer: str) -> str:
    """Return the `otpauth:` URL that authenticators read from a QR code."""
    query = urlencode(
        {"secret": secret, "issuer": issuer, "digits": DIGITS, "period": PERIOD_SECONDS}, quote_via=quote
    )
    return f"otpauth://totp/{quote(issuer)}:{quote(email)}?{query}"
