"""Reads the installation's settings for sending e-mail."""

import re
from dataclasses import dataclass, field
from email.headerregistry import Address
from urllib.parse import unquote, urlsplit

from control_domain.notifications.destination_formats import find_email_fault
from pipeline_contracts.settings import BadSettings, Settings

_URL_FORM = "it is written smtp://user:password@host:587 (STARTTLS) or smtps://user:password@host:465"
_SENDER = re.compile(r"(?P<name>[^<>,]*)<(?P<named>[^<>]+)>|(?P<bare>[^<>,\s]+)")
_PORTS = {"smtp": 587, "smtps": 465}


@dataclass(frozen=True, slots=True)
class SmtpSettings:
    """A mail server, and the sender of e-mail."""

    host: str
    port: int
    is_implicit_tls: bool
    allows_plaintext: bool
    username: str | None
    password: str | None = field(repr=False)
    sender: Address


def read_smtp_settings(settings: Settings) -> SmtpSettings | None:
    """Return the SMTP settings. None if the installation sends no e-mail.

    Raises `BadSettings`, whose message does not contain the password.
    """
    if not settings.smtp_url:
        return None
    try:
        parts = urlsplit(settings.smtp_url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise BadSettings(f"PHAROS_SMTP_URL: {_URL_FORM}") from None
    rest = parts.path.strip("/") or parts.query or parts.fragment
    if parts.scheme not in _PORTS or not host or rest or not re.fullmatch(r"[A-Za-z0-9_.:-]+", host):
        raise BadSettings(f"PHAROS_SMTP_URL: {_URL_FORM}; a user or password has its / ? # @ : as %2F %3F …")
    if bool(parts.username) != bool(parts.password):
        raise BadSettings("PHAROS_SMTP_URL: a user needs a password, and a password a user")
    return SmtpSettings(
        host=host,
        port=port or _PORTS[parts.scheme],
        is_implicit_tls=parts.scheme == "smtps",
        allows_plaintext=settings.smtp_plaintext,
        username=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        sender=_read_sender(settings.smtp_from),
    )


def _read_sender(text: str | None) -> Address:
    if not text:
        raise BadSettings(
            "PHAROS_SMTP_FROM: is needed with PHAROS_SMTP_URL, as in: Pharos <pharos@example.org>"
        )
    match = _SENDER.fullmatch(text.strip())
    name = (match["name"] or "").strip().strip('"') if match else ""
    address = match["named"] or match["bare"] if match else ""
    if find_email_fault(address) is not None or not name.isprintable():
        raise BadSettings("PHAROS_SMTP_FROM: it is written Pharos <pharos@example.org>")
    return Address(display_name=name, addr_spec=address)
