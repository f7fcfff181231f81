"""E-mail, received by a real SMTP server."""

import socket
import ssl
from email.message import EmailMessage
from pathlib import Path
from urllib.parse import quote

import pytest

from notifications.channels.email_channel import EmailChannel, build_mail
from notifications.channels.interface import DeliveryFailed, Destination
from notifications.channels.smtp_settings import read_smtp_settings
from notifications.message import Message
from pipeline_contracts.settings import BadSettings, Settings
from tests.notifications.channels.mail_server import PASSWORD, USER, run_mail_server
from tests.notifications.channels.tls_certificates import Certificates, make_certificates
from tests.notifications.sample_messages import (
    NASTY,
    make_incident,
    make_largest_message,
    make_message,
    make_resolved,
)

_LOGIN = f"{USER}:{quote(PASSWORD, safe='')}@"
_SENDER = "Pharos <pharos@example.org>"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(Path(tmp_path_factory.mktemp("certificates")))


async def _send(
    url: str,
    *messages: Message,
    plaintext: bool = False,
    tls: ssl.SSLContext | None = None,
    address: str = "ops@example.org",
) -> None:
    settings = read_smtp_settings(Settings(smtp_url=url, smtp_from=_SENDER, smtp_plaintext=plaintext))
    assert settings is not None
    channel = EmailChannel(settings, tls=tls)
    for message in messages or (make_message(),):
        await channel.send(message, Destination("email", {"address": address}, {}))


async def _fail(url: str, **more: object) -> DeliveryFailed:
    with pytest.raises(DeliveryFailed) as caught:
        await _send(url, **more)  # type: ignore[arg-type]
    return caught.value


async def test_mail_arrives_over_each_kind_of_connection(certificates: Certificates) -> None:
    server, client = certificates.server, certificates.client
    cases = (
        (run_mail_server(), "smtp://", "", True, False),
        (run_mail_server(needs_auth=True), "smtp://", _LOGIN, True, False),
        (run_mail_server(starttls=server), "smtp://", "", False, True),
        # STARTTLS is used if it is offered, although plaintext would be allowed.
        (run_mail_server(starttls=server), "smtp://", "", True, True),
        (run_mail_server(starttls=server, needs_auth=True), "smtp://", _LOGIN, False, True),
        (run_mail_server(tls=server), "smtps://", "", False, True),
        (run_mail_server(tls=server, needs_auth=True), "smtps://", _LOGIN, False, True),
    )
    for running, scheme, login, plaintext, is_encrypted in cases:
        async with running as mailbox:
            await _send(f"{scheme}{login}127.0.0.1:{mailbox.port}", plaintext=plaintext, tls=client)
        assert mailbox.recipients == ["ops@example.org"]
        assert mailbox.was_encrypted == [is_encrypted]
        assert mailbox.users == ([USER] if login else [])


async def test_mail_is_not_sent_in_the_clear_unless_the_operator_allows_it() -> None:
    async with run_mail_server() as mailbox:
        error = await _fail(f"smtp://127.0.0.1:{mailbox.port}")
        assert str(error) == "The mail server offers no STARTTLS. PHAROS_SMTP_PLAINTEXT=1 sends without TLS."
    assert (mailbox.mails, error.is_permanent) == ([], False)


async def test_certificate_of_the_mail_server_is_checked(certificates: Certificates) -> None:
    for running, scheme in (
        (run_mail_server(starttls=certificates.server), "smtp"),
        (run_mail_server(tls=certificates.server), "smtps"),
    ):
        async with running as mailbox:
            error = await _fail(f"{scheme}://127.0.0.1:{mailbox.port}")
        assert "no valid TLS certificate" in str(error)
        assert (mailbox.mails, error.is_permanent) == ([], False)


async def test_answers_decide_about_the_next_attempt() -> None:
    cases = {
        ("550 5.1.1 No such user", "250 OK"): (True, "refused ops@example.org: 550 5.1.1 No such user"),
        ("450 4.2.1 Try later", "250 OK"): (False, "refused ops@example.org: 450 4.2.1 Try later"),
        ("250 OK", "554 5.7.1 Spam"): (True, "refused the message: 554 5.7.1 Spam"),
        ("250 OK", "451 4.3.0 Busy"): (False, "refused the message: 451 4.3.0 Busy"),
    }
    async with run_mail_server() as mailbox:
        for (mailbox.recipient_answer, mailbox.data_answer), (is_permanent, text) in cases.items():
            error = await _fail(f"smtp://127.0.0.1:{mailbox.port}", plaintext=True)
            assert (error.is_permanent, str(error)) == (is_permanent, f"The mail server {text}")


async def test_faults_of_the_installation_are_retried() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        closed = unused.getsockname()[1]
    async with run_mail_server(needs_auth=True) as mailbox:
        cases = {
            f"smtp://{USER}:wrong-password@127.0.0.1:{mailbox.port}": "did not accept the user and password",
            f"smtp://127.0.0.1:{closed}": "cannot be reached",
        }
        for url, text in cases.items():
            error = await _fail(url, plaintext=True)
            assert text in str(error)
            assert "wrong-password" not in str(error)
            assert not error.is_permanent


async def test_accepted_mail_is_sent_even_if_quit_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("notifications.channels.email_channel._QUIT_SECONDS", 0.1)
    async with run_mail_server() as mailbox:
        mailbox.seconds_to_quit = 0.5
        await _send(f"smtp://127.0.0.1:{mailbox.port}", plaintext=True)
    assert len(mailbox.mails) == 1


async def test_mails_of_a_group_are_one_conversation() -> None:
    async with run_mail_server() as mailbox:
        url = f"smtp://127.0.0.1:{mailbox.port}"
        await _send(url, make_message(), make_message(), make_resolved(), plaintext=True)
    first, again, end = mailbox.mails
    assert first["Message-ID"] == again["Message-ID"] == "<msg_01KAZ7QF@example.org>"
    assert end["Message-ID"] == "<msg_01KAZ9@example.org>"
    assert {mail["References"] for mail in mailbox.mails} == {"<grp_01KAZ7QG@example.org>"}
    assert {mail["In-Reply-To"] for mail in mailbox.mails} == {"<grp_01KAZ7QG@example.org>"}
    assert first["Subject"] == "[Critical] Heartbeat nightly-backup is down (shop/production)"
    assert end["Subject"].startswith("[Resolved] ")
    assert (first["From"], first["To"]) == ("Pharos <pharos@example.org>", "ops@example.org")
    assert first["Auto-Submitted"] == "auto-generated"
    assert first["Date"].datetime.isoformat() == "2026-11-26T03:00:31+00:00"


def test_mail_has_text_and_html() -> None:
    mail = _build(make_message())
    text, html = mail.get_body(("plain",)), mail.get_body(("html",))
    assert isinstance(text, EmailMessage)
    assert isinstance(html, EmailMessage)
    assert "pharos heartbeat show 12" in text.get_content()
    assert "pharos heartbeat show 12" in html.get_content()


@pytest.mark.parametrize(
    "message",
    [
        make_message(title=NASTY),
        make_message(make_incident(title=NASTY, details=[NASTY])),
        make_message(id="msg_1", project="x\r\nBcc: x@example.org", account="\n\nBody"),
        make_largest_message(),
        make_message(title="\u00e4\u20ac\U0001f4a5" * 60),
    ],
    ids=["title", "incident", "project", "largest", "not ascii"],
)
def test_names_cannot_add_headers(message: Message) -> None:
    raw = _build(message).as_bytes()
    head, _, _ = raw.partition(b"\r\n\r\n")
    names = [line.partition(b":")[0] for line in head.split(b"\r\n") if not line.startswith((b" ", b"\t"))]
    assert sorted(names) == sorted(
        b"Subject From To Date Message-ID In-Reply-To References Auto-Submitted X-Pharos-State "
        b"X-Pharos-Severity MIME-Version Content-Type".split()
    )
    assert max(len(line) for line in raw.split(b"\r\n")) <= 998
    assert raw.isascii()


async def test_address_with_more_than_an_address_is_refused() -> None:
    for address in ("a@example.org\r\nRCPT TO:<b@example.org>", "a@example.org, b@example.org", "<a@b>", ""):
        error = await _fail("smtp://127.0.0.1:1", address=address)
        assert error.is_permanent


def _build(message: Message) -> EmailMessage:
    settings = read_smtp_settings(Settings(smtp_url="smtp://mail.test", smtp_from=_SENDER))
    assert settings is not None
    return build_mail(message, settings.sender, "ops@example.org")


def test_settings_of_the_mail_server() -> None:
    cases = {
        "smtp://mail.test": ("mail.test", 587, False, None, None),
        "smtp://mail.test:2525/": ("mail.test", 2525, False, None, None),
        "smtps://mail.test": ("mail.test", 465, True, None, None),
        f"smtps://{_LOGIN}mail.test": ("mail.test", 465, True, USER, PASSWORD),
        "smtp://[::1]:25": ("::1", 25, False, None, None),
    }
    for url, expected in cases.items():
        read = read_smtp_settings(Settings(smtp_url=url, smtp_from=_SENDER))
        assert read is not None
        assert (read.host, read.port, read.is_implicit_tls, read.username, read.password) == expected
        assert PASSWORD not in repr(read)
    assert read_smtp_settings(Settings(smtp_from=_SENDER)) is None


@pytest.mark.parametrize(
    ("url", "sender", "setting"),
    [
        ("mail.test:587", _SENDER, "PHAROS_SMTP_URL"),
        ("http://mail.test", _SENDER, "PHAROS_SMTP_URL"),
        ("smtp://", _SENDER, "PHAROS_SMTP_URL"),
        ("smtp://mail.test:port", _SENDER, "PHAROS_SMTP_URL"),
        ("smtp://user:sec/ret@mail.test", _SENDER, "PHAROS_SMTP_URL"),
        ("smtp://user@mail.test", _SENDER, "PHAROS_SMTP_URL"),
        ("smtp://mail.test/path", _SENDER, "PHAROS_SMTP_URL"),
        ("smtp://mail.test", None, "PHAROS_SMTP_FROM"),
        ("smtp://mail.test", "Pharos", "PHAROS_SMTP_FROM"),
        ("smtp://mail.test", "a@example.org, b@example.org", "PHAROS_SMTP_FROM"),
        ("smtp://mail.test", "x\r\nBcc: y <a@example.org>", "PHAROS_SMTP_FROM"),
    ],
)
def test_unusable_settings_are_named_without_the_password(url: str, sender: str | None, setting: str) -> None:
    with pytest.raises(BadSettings, match=setting) as caught:
        read_smtp_settings(Settings(smtp_url=url, smtp_from=sender))
    assert "sec" not in str(caught.value)
