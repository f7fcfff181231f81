"""An SMTP server (aiosmtpd) on the loop of the test: plaintext, STARTTLS or implicit TLS, with or without AUTH."""

import asyncio
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

USER, PASSWORD = "pharos", "p@ss/w:rd#1"


@dataclass
class Mailbox:
    """The accepted mails of the server, and its responses."""

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    was_encrypted: list[bool] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    recipient_answer: str = "250 OK"
    data_answer: str = "250 OK"
    seconds_to_quit: float = 0.0

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Respond to a recipient."""
        if self.recipient_answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return self.recipient_answer

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """Store a mail."""
        if self.data_answer.startswith("250"):
            assert isinstance(envelope.content, bytes)
            mail = message_from_bytes(envelope.content, policy=default)
            assert isinstance(mail, EmailMessage)
            self.mails.append(mail)
            self.recipients += envelope.rcpt_tos
            transport = server.transport
            self.was_encrypted.append(transport is not None and bool(transport.get_extra_info("sslcontext")))
        return self.data_answer

    async def handle_QUIT(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """Respond to the end of a session, late if a test requests this."""
        await asyncio.sleep(self.seconds_to_quit)
        return "221 Bye"

    def authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
    ) -> AuthResult:
        """Accept one user."""
        if not isinstance(data, LoginPassword):
            return AuthResult(success=False, handled=False)
        self.users.append(data.login.decode())
        # `handled=False`: aiosmtpd itself answers a failure.
        return AuthResult(
            success=(data.login.decode(), data.password.decode()) == (USER, PASSWORD), handled=False
        )


@asynccontextmanager
async def run_mail_server(
    *,
    starttls: ssl.SSLContext | None = None,
    tls: ssl.SSLContext | None = None,
    needs_auth: bool = False,
) -> AsyncIterator[Mailbox]:
    """Run the server on a free port."""
    mailbox = Mailbox()
    loop = asyncio.get_running_loop()

    def make_protocol() -> SMTP:
        with warnings.catch_warnings():
            # aiosmtpd warns about AUTH without TLS, and about TLS without a check of the client's certificate.
            warnings.simplefilter("ignore")
            return SMTP(
                mailbox,
                hostname="mail.test",
                tls_context=starttls,
                require_starttls=starttls is not None,
                authenticator=mailbox.authenticate if needs_auth else None,
                auth_required=needs_auth,
                auth_require_tls=starttls is not None,
                loop=loop,
            )

    server = await loop.create_server(make_protocol, "127.0.0.1", 0, ssl=tls)
    try:
        mailbox.port = server.sockets[0].getsockname()[1]
        yield mailbox
    finally:
        server.close()
        await server.wait_closed()
