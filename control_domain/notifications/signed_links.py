"""Signed links to the page of an incident. With such a link, its recipient can acknowledge and silence the incident
without a token."""

import base64
import hmac
import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

LINK_DAYS = 30
"""How long a link works."""

_SIGNATURE = re.compile(r"([0-9]{1,12})\.([cp])([1-9][0-9]{0,17})\.([A-Za-z0-9_-]{22})")
_MAC_BYTES = 16


class LinkRecipient(NamedTuple):
    """The recipient of a link: a channel or a person, by the number of its row."""

    channel_id: int | None = None
    person_id: int | None = None

    def __str__(self) -> str:
        return f"p{self.person_id}" if self.channel_id is None else f"c{self.channel_id}"


class IncidentLinks:
    """Makes and checks links of one installation."""

    __slots__ = ("_key", "_public_url")

    def __init__(self, key: bytes, public_url: str | None) -> None:
        """`key`: the receipt key of the control plane, from which the key for links is derived. `public_url`:
        `PHAROS_PUBLIC_URL`; without it there are no links."""
        # A derived key: a signature of a link must not pass as a receipt.
        self._key = hmac.digest(key, b"links to incidents", "sha256")
        self._public_url = None if public_url is None else public_url.rstrip("/")

    def page(self, public_id: str, recipient: LinkRecipient, now: datetime) -> str | None:
        """Return the URL of the page of the incident `inc_…`; None without a public URL."""
        if self._public_url is None:
            return None
        return f"{self._public_url}/incidents/{public_id}?s={self.sign(public_id, recipient, now)}"

    def sign(self, public_id: str, recipient: LinkRecipient, now: datetime) -> str:
        """Return the signature of a link that works for 30 days."""
        expiry = int((now + timedelta(days=LINK_DAYS)).timestamp())
        return f"{expiry}.{recipient}.{self._mac(public_id, recipient, expiry)}"

    def check(self, public_id: str, signature: str, now: datetime) -> LinkRecipient | None:
        """Return the recipient of the link; None unless the signature belongs to this incident and has not expired.
        The caller must check whether the recipient may still use the link."""
        match = _SIGNATURE.fullmatch(signature)
        if match is None:
            return None
        expiry, number = int(match[1]), int(match[3])
        recipient = LinkRecipient(number) if match[2] == "c" else LinkRecipient(None, number)
        is_genuine = hmac.compare_digest(match[4], self._mac(public_id, recipient, expiry))
        is_valid = is_genuine and now < datetime.fromtimestamp(0, UTC) + timedelta(seconds=expiry)
        return recipient if is_valid else None

    def _mac(self, public_id: str, recipient: LinkRecipient, expiry: int) -> str:
        signed = f"{expiry} {recipient} {public_id}"
        mac = hmac.digest(self._key, signed.encode(), "sha256")[:_MAC_BYTES]
        return base64.urlsafe_b64encode(mac).rstrip(b"=").decode()
