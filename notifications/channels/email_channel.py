"""Sends messages by e-mail, through the SMTP server of the installation."""

import asyncio
import ssl
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

import aiosmtplib

from control_domain.notifications.channel_types import EmailSettings, read_settings
from control_domain.notifications.destination_formats import find_email_fault
from notifications.channels.interface import DeliveryFailed, Destination
from notifications.channels.outbound_http.replies import MAX_EXCERPT
from notifications.channels.smtp_settings import SmtpSettings
from notifications.message import Message
from notifications.render.html import render_html
from notifications.render.text import render_text
from notifications.render.view import view_message
from notifications.render.words import to_line

_TOTAL_SECONDS = 14.0
_QUIT_SECONDS = 1.0
_MAX_SUBJECT = 200


class EmailChannel:
    """Opens a new connection for each message, because mail servers close idle connections."""

    def __init__(self, settings: SmtpSettings, *, tls: ssl.SSLContext | None = None) -> None:
        self._settings = settings
        self._tls = tls or ssl.create_default_context()

    async def send(self, message: Message, destination: Destination) -> None:
        """Send the message. 4xx responses are retried, and so are faults that the operator can fix, such as a refused
        password or an invalid certificate. 5xx responses about the address or the message are permanent failures."""
        address = read_settings(EmailSettings, destination.settings).address
        if find_email_fault(address) is not None:
            raise DeliveryFailed("The address of the channel is not an e-mail address.", is_permanent=True)
        mail = build_mail(message, self._settings.sender, address)
        try:
            async with asyncio.timeout(_TOTAL_SECONDS):
                client = await self._send_mail(mail, address)
        except (aiosmtplib.SMTPAuthenticationError, aiosmtplib.SMTPNotSupported) as error:
            raise DeliveryFailed(
                "The mail server did not accept the user and password of PHAROS_SMTP_URL"
                f"{_read_answer(error)}"
            ) from None
        except aiosmtplib.SMTPRecipientsRefused as error:
            refused = error.recipients[0]
            raise _refuse(f"The mail server refused {address}", refused) from None
        except aiosmtplib.SMTPConnectResponseError as error:
            raise DeliveryFailed(f"The mail server refuses connections{_read_answer(error)}") from None
        except aiosmtplib.SMTPSenderRefused as error:
            raise DeliveryFailed(
                f"The mail server refused the sender, PHAROS_SMTP_FROM{_read_answer(error)}"
            ) from None
        except aiosmtplib.SMTPResponseException as error:
            raise _refuse("The mail server refused the message", error) from None
        except TimeoutError:
            raise DeliveryFailed(f"The mail server did not answer within {_TOTAL_SECONDS:g} s.") from None
        except (aiosmtplib.SMTPException, OSError) as error:
            raise DeliveryFailed(_explain(error)) from None
        await _quit(client)

    async def _send_mail(self, mail: EmailMessage, address: str) -> aiosmtplib.SMTP:
        """Send the mail. Return the open connection once the server has accepted the mail."""
        settings = self._settings
        client = aiosmtplib.SMTP(
            hostname=settings.host,
            port=settings.port,
            use_tls=settings.is_implicit_tls,
            # True: if the server does not offer STARTTLS, the connection fails, so an attacker on the path cannot
            # remove STARTTLS. None: use STARTTLS if the server offers it.
            start_tls=None if settings.allows_plaintext else not settings.is_implicit_tls,
            username=settings.username,
            password=settings.password,
            tls_context=self._tls,
            # Without this, the client looks up the machine's own name in the DNS, which can take seconds.
            local_hostname=settings.sender.domain,
            timeout=_TOTAL_SECONDS,
        )
        try:
            await client.connect()
            await client.send_message(mail, sender=settings.sender.addr_spec, recipients=[address])
        except BaseException:
            client.close()
            raise
        return client


async def _quit(client: aiosmtplib.SMTP) -> None:
    """End the session. Ignore the response, because the server has already accepted the mail."""
    try:
        await client.quit(timeout=_QUIT_SECONDS)
    except (aiosmtplib.SMTPException, OSError):
        client.close()


def build_mail(message: Message, sender: Address, address: str) -> EmailMessage:
    """Return the mail with a text and an HTML part. Each attempt to send it has the same Message-ID.

    All mails about one group of incidents refer to the same ID, so that mail clients show them as one conversation.
    """
    view = view_message(message)
    mail = EmailMessage(policy=SMTP)
    # Each header is one line without control characters: `view_message` removes them.
    mail["Subject"] = to_line(f"[{view.word}] {view.subject}", _MAX_SUBJECT)
    mail["From"] = sender
    mail["To"] = Address(addr_spec=address)
    mail["Date"] = format_datetime(_read_time(message.created_at))
    mail["Message-ID"] = f"<{message.id}@{sender.domain}>"
    mail["In-Reply-To"] = mail["References"] = f"<{message.group_id}@{sender.domain}>"
    # Out-of-office programs do not answer automatic mails (RFC 3834).
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Pharos-State"] = message.state
    mail["X-Pharos-Severity"] = message.severity
    mail.set_content(render_text(message), cte="quoted-printable")
    # Python encodes base64 in C, but quoted-printable in Python code, which blocked the event loop for up to 30 ms a
    # mail.
    mail.add_alternative(render_html(message), subtype="html", cte="base64")
    return mail


def _read_time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)


def _refuse(text: str, error: aiosmtplib.SMTPResponseException) -> DeliveryFailed:
    return DeliveryFailed(f"{text}{_read_answer(error)}", is_permanent=500 <= error.code < 600)


def _read_answer(error: aiosmtplib.SMTPException) -> str:
    if isinstance(error, aiosmtplib.SMTPResponseException):
        return f": {error.code} {to_line(error.message, MAX_EXCERPT)}"
    return "."


def _explain(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError):
        return "The mail server has no valid TLS certificate. Set SSL_CERT_FILE for an authority of your own."
    if "STARTTLS" in str(error):
        return "The mail server offers no STARTTLS. PHAROS_SMTP_PLAINTEXT=1 sends without TLS."
    if isinstance(error, aiosmtplib.SMTPServerDisconnected):
        return "The mail server closed the connection."
    return "The mail server cannot be reached. Check PHAROS_SMTP_URL."
