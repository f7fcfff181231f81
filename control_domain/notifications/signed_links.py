"""Signed links to the page of an incident: whoever has one may acknowledge and silence it without a token."""

import base64
import hmac
import re
from datetime import UTC, datetime, timedelta

LINK_DAYS = 30
"""For how long a link works."""

_SIGNATURE = re.compile(r"([0-9]{1,12})\.([A-Za-z0-9_-]{22})")
_MAC_BYTES = 16


class IncidentLinks:
    """Makes and checks links of one installation."""

    __slots__ = ("_key", "_public_url")

    def __init__(self, key: bytes, public_url: str | None) -> None:
        """`key`: the receipt key of the control plane, from which one for links is derived. `public_url`:
        `PHAROS_PUBLIC_URL`; without it there are no links."""
        # A derived key: a signature of a link must not pass as a receipt.
        self._key = hmac.digest(key, b"links to incidents", "sha256")
        self._public_url = None if public_url is None else public_url.rstrip("/")

    def page(self, public_id: str, now: datetime) -> str | None:
        """Return the URL of the page of the incident `inc_…`; None without a public URL."""
        if self._public_url is None:
            return None
        return f"{self._public_url}/incidents/{public_id}?s={self.sign(public_id, now)}"

    def sign(self, public_id: str, now: datetime) -> str:
        """Return the signature of a link that works for 30 days."""
        expiry = int((now + timedelta(days=LINK_DAYS)).timestamp())
        return f"{expiry}.{self._mac(public_id, expiry)}"

    def check(self, public_id: str, signature: str, now: datetime) -> bool:
        """Return True if the signature is of this incident and has not expired."""
        match = _SIGNATURE.fullmatch(signature)
        if match is None:
            return False
        expiry = int(match[1])
        is_genuine = hmac.compare_digest(match[2], self._mac(public_id, expiry))
        return is_genuine and now < datetime.fromtimestamp(0, UTC) + timedelta(seconds=expiry)

    def _mac(self, public_id: str, expiry: int) -> str:
        mac = hmac.digest(self._key, f"{expiry} {public_id}".encode(), "sha256")[:_MAC_BYTES]
        return base64.urlsafe_b64encode(mac).rstrip(b"=").decode()
