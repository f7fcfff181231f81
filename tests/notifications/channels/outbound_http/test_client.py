"""Requests to receivers: checked addresses, no redirects, bounded time and size."""

import asyncio
import functools
import ipaddress
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest
from aiohttp import web

from notifications.channels.interface import DeliveryFailed
from notifications.channels.outbound_http import client
from notifications.channels.outbound_http.addresses import IPAddress
from notifications.channels.outbound_http.client import MAX_RESPONSE_BYTES, open_outbound_http
from notifications.channels.outbound_http.resolver import open_checked_socket
from tests.notifications.channels.receiver import NO_TLS, run_receiver
from tests.notifications.channels.tls_certificates import make_certificates


class Names:
    """Resolves any name to the next list of addresses, and to the last list from then on."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str) -> Sequence[IPAddress]:
        self.asked.append(host)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if not answer:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [ipaddress.ip_address(text) for text in answer]


async def _fail(
    url: str, *, allow_private: bool = False, names: Names | None = None, **more: float
) -> DeliveryFailed:
    async with open_outbound_http(allow_private=allow_private, lookup=names, tls=NO_TLS) as http:
        with pytest.raises(DeliveryFailed) as caught:
            await http.post(url, b"{}", {}, **more)
    return caught.value


_REFUSED_HOSTS = (
    "127.0.0.1",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "169.254.169.254",
    "10.1.2.3",
    "0.0.0.0",
    # Other spellings of 127.0.0.1 that the C library accepts.
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "017700000001",
    "127.1",
    "localhost",
    "LOCALHOST",
)


@pytest.mark.parametrize("host", _REFUSED_HOSTS)
async def test_host_of_this_machine_is_refused_in_each_spelling(host: str) -> None:
    async with run_receiver() as receiver:
        error = await _fail(f"http://{host}:{receiver.port}/")
        assert error.is_permanent
        assert receiver.received == []


_REFUSED_ANSWERS = (
    ["127.0.0.1"],
    ["::1"],
    ["::ffff:127.0.0.1"],
    ["64:ff9b::7f00:1"],
    ["2002:7f00:1::1"],
    ["192.168.0.10"],
    ["169.254.169.254"],
    ["fd00::1"],
    # One refused address among public ones refuses the name.
    ["93.184.215.14", "127.0.0.1"],
    ["93.184.215.14", "::1"],
)


@pytest.mark.parametrize("answer", _REFUSED_ANSWERS, ids="+".join)
async def test_name_of_a_refused_address_is_refused(answer: list[str]) -> None:
    error = await _fail("http://receiver.test:1/", names=Names(answer))
    assert error.is_permanent
    assert "receiver.test has an address that channels may not reach" in str(error)
    # The resolved address would reveal the operator's network to members.
    assert not any(address in str(error) for address in answer)


async def test_metadata_services_stay_refused_where_private_addresses_are_allowed() -> None:
    for url, names in (
        ("http://169.254.169.254/latest/meta-data", None),
        ("http://receiver.test/", Names(["169.254.169.254"])),
        ("http://receiver.test/", Names(["fe80::1"])),
    ):
        assert (await _fail(url, allow_private=True, names=names)).is_permanent


async def test_connection_goes_to_the_address_that_was_checked() -> None:
    # The second answer would be refused. The name is looked up once for a connection, which then uses the address.
    names = Names(["127.0.0.1"], ["169.254.169.254"])
    async with (
        run_receiver() as receiver,
        open_outbound_http(allow_private=True, lookup=names, tls=NO_TLS) as http,
    ):
        reply = await http.post(receiver.url(host="receiver.test"), b"{}", {})
    assert reply.status == 200
    assert names.asked == ["receiver.test"]
    assert receiver.received[0].headers["host"] == f"receiver.test:{receiver.port}"


async def test_each_connection_checks_the_name_again() -> None:
    names = Names(["127.0.0.1"], ["169.254.169.254"])
    async with (
        run_receiver() as receiver,
        open_outbound_http(allow_private=True, lookup=names, tls=NO_TLS) as http,
    ):
        receiver.answers.append(web.Response(headers={"Connection": "close"}))
        await http.post(receiver.url(host="receiver.test"), b"{}", {})
        with pytest.raises(DeliveryFailed, match="may not reach"):
            await http.post(receiver.url(host="receiver.test"), b"{}", {})
    assert len(receiver.received) == 1


def test_no_socket_is_made_for_a_refused_address() -> None:
    target = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 80))
    with pytest.raises(PermissionError):
        open_checked_socket(target, allow_private=False)


async def test_connections_are_checked_although_the_resolver_was_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("notifications.channels.outbound_http.resolver.check_address", lambda *_, **__: None)
    async with run_receiver() as receiver:
        error = await _fail(receiver.url(host="receiver.test"), names=Names(["127.0.0.1"]))
    assert "receiver.test could not be reached" in str(error)
    assert receiver.received == []


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    async with run_receiver() as receiver, open_outbound_http(allow_private=True, tls=NO_TLS) as http:
        assert (await http.post(receiver.url(), b"{}", {})).status == 200


async def test_redirect_is_returned_and_not_followed() -> None:
    async with run_receiver() as receiver, open_outbound_http(allow_private=True, tls=NO_TLS) as http:
        receiver.answers.append(web.Response(status=302, headers={"Location": receiver.url("/next")}))
        assert (await http.post(receiver.url("/first"), b"{}", {})).status == 302
    assert [request.path for request in receiver.received] == ["/first"]


async def test_url_is_sent_as_it_is_written() -> None:
    async with run_receiver() as receiver, open_outbound_http(allow_private=True, tls=NO_TLS) as http:
        await http.post(receiver.url("/a%2Fb?sig=%2B-x~%7E"), b"{}", {})
    assert receiver.received[0].path == "/a%2Fb?sig=%2B-x~%7E"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/",
        "http://user:password@example.org/",
        "http://exa mple.org/",
        "http:///x",
        "http://[::1/",
    ],
)
async def test_other_urls_are_refused(url: str) -> None:
    error = await _fail(url, allow_private=True)
    assert error.is_permanent
    assert str(error) == "The URL of the channel is not valid. Set it again."


async def test_large_answer_is_read_in_part() -> None:
    async with run_receiver() as receiver, open_outbound_http(allow_private=True, tls=NO_TLS) as http:
        receiver.answers.append(web.Response(body=b"x" * (4 * MAX_RESPONSE_BYTES)))
        reply = await http.post(receiver.url(), b"{}", {})
    assert len(reply.body) == MAX_RESPONSE_BYTES


async def test_compressed_answer_is_not_expanded() -> None:
    async with run_receiver() as receiver, open_outbound_http(allow_private=True, tls=NO_TLS) as http:
        receiver.answers.append(web.Response(body=b"\x1f\x8bzip", headers={"Content-Encoding": "gzip"}))
        assert (await http.post(receiver.url(), b"{}", {})).body == b"\x1f\x8bzip"
    assert receiver.received[0].headers["accept-encoding"] == "identity"


async def test_silent_receiver_ends_in_time() -> None:
    async def wait(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30)
        return web.Response()

    async with run_receiver() as receiver:
        receiver.answers.append(wait)
        error = await _fail(receiver.url(), allow_private=True, seconds=0.2)
    assert str(error) == "127.0.0.1 did not answer within 0.2 s."
    assert not error.is_permanent


async def test_slow_name_server_ends_in_time() -> None:
    async def wait(_: str) -> Sequence[IPAddress]:
        await asyncio.sleep(30)
        return []

    async with open_outbound_http(allow_private=True, lookup=wait, tls=NO_TLS) as http:
        with pytest.raises(DeliveryFailed, match=r"did not answer within 0\.1 s"):
            await http.post("http://receiver.test/", b"{}", {}, seconds=0.1)


async def test_status_counts_if_the_body_is_truncated() -> None:
    async def break_off(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=202, headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.close()
        return response

    async with run_receiver() as receiver, open_outbound_http(allow_private=True, tls=NO_TLS) as http:
        receiver.answers.append(break_off)
        reply = await http.post(receiver.url(), b"{}", {})
    assert (reply.status, reply.body) == (202, b"half")


async def test_status_counts_if_the_body_is_too_slow() -> None:
    async def stall(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=202, headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"half")
        await asyncio.sleep(30)
        return response

    async with run_receiver() as receiver, open_outbound_http(allow_private=True, tls=NO_TLS) as http:
        receiver.answers.append(stall)
        reply = await http.post(receiver.url(), b"{}", {}, seconds=0.2)
    assert (reply.status, reply.body) == (202, b"half")


async def test_failed_connections_are_explained_and_retried(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as unused:
        closed = unused.getsockname()[1]
    async with run_receiver() as plain, run_receiver(certificates.server) as encrypted:
        cases = {
            f"http://127.0.0.1:{closed}/": "127.0.0.1 refused the connection.",
            "http://gone.test/": "gone.test could not be resolved to an address.",
            encrypted.url(scheme="https"): "127.0.0.1 has no valid TLS certificate: self-signed certificate.",
            plain.url(
                scheme="https"
            ): "127.0.0.1 and Pharos found no common TLS version or cipher, or it does not "
            "speak TLS at this port.",
            encrypted.url(scheme="http"): "127.0.0.1 closed the connection without a complete response.",
        }
        for url, text in cases.items():
            error = await _fail(url, allow_private=True, names=Names([]))
            assert (str(error), error.is_permanent) == (text, False), url


async def test_certificate_is_checked_for_the_name(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    asked: list[str | None] = []
    certificates.server.sni_callback = lambda _, name, __: asked.append(name)
    async with (
        run_receiver(certificates.server) as receiver,
        open_outbound_http(allow_private=True, lookup=Names(["127.0.0.1"]), tls=certificates.client) as http,
    ):
        reply = await http.post(receiver.url(host="receiver.test", scheme="https"), b"{}", {})
        assert (reply.status, asked) == (200, ["receiver.test"])
        with pytest.raises(DeliveryFailed, match="no valid TLS certificate: Hostname mismatch"):
            await http.post(receiver.url(host="other.test", scheme="https"), b"{}", {})


@pytest.mark.parametrize("host", ["a..example", "a" * 64 + ".example"])
async def test_invalid_host_name_is_not_retried(host: str) -> None:
    error = await _fail(f"http://{host}/", names=Names([]))
    assert error.is_permanent


async def test_a_process_reads_the_certificates_of_the_system_at_most_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Reading them blocks the event loop for 30 ms."""
    made: list[ssl.SSLContext] = []

    def make() -> ssl.SSLContext:
        made.append(NO_TLS)
        return NO_TLS

    monkeypatch.setattr(client, "_system_tls", functools.cache(client._system_tls.__wrapped__))
    monkeypatch.setattr(ssl, "create_default_context", make)
    for _ in range(3):
        async with open_outbound_http(allow_private=False):
            pass
    assert len(made) == 1
