"""The embedded proxy, byte by byte: heads, framing, and attempts to smuggle a request past it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from deployer.traffic.interface import Route, Target
from deployer.traffic.proxy.bounded_server import CallerLimits
from deployer.traffic.proxy.origin_claims import CLAIM_NAMES, CLAIM_PREFIXES
from deployer.traffic.proxy.refusals import Unavailable
from deployer.traffic.proxy.streaming import StreamingProxy
from pipeline_contracts.open_connections import NO_ADDRESS, ConnectionLimiter
from pipeline_contracts.read_settings import read_settings
from tests.deployer.traffic.applications import exchange_raw, raw_server, running_application, until
from tests.deployer.traffic.carriers import Carrier, proxy_carrier

HOST = b"Host: a.localhost\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST
POST = b"POST / HTTP/1.1\r\n" + HOST


class Recorder:
    """An instance that records requests and responds with `answer`."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self._ended = 0
        self.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(self.got)
        self.got.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self.answer)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
            # The proxy ends the connection after each request.
            while data := await reader.read(65536):
                self.got[number] += data
        self._ended += 1

    async def whole(self) -> bytes:
        """Return the first request, once all requests have ended."""
        await until(lambda: self._ended and self._ended == len(self.got))
        return self.got[0]


@pytest.fixture
async def proxy() -> AsyncIterator[Carrier]:
    async with proxy_carrier() as carrier:
        yield carrier


@pytest.fixture
async def recorder(proxy: Carrier) -> AsyncIterator[Recorder]:
    recording = Recorder()
    async with raw_server(recording.serve) as target:
        await proxy.traffic.set_route(1, to(target))
        yield recording


def to(target: Target) -> Route:
    return Route(("a.localhost",), (target,), is_awaited=True)


async def _status(proxy: Carrier, data: bytes) -> int:
    answer = await exchange_raw(proxy.port, data, silence=1.0)
    return int(answer.split(b" ", 2)[1]) if answer else 0


async def test_the_exact_request_head_for_an_instance(proxy: Carrier, recorder: Recorder) -> None:
    await exchange_raw(
        proxy.port,
        b"POST /a%2Fb?c=%20 HTTP/1.1\r\nhost: A.localhost:80\r\nX-One: 1\r\nX-One: 2\r\n"
        b"X-Forwarded-For: 1.2.3.4\r\nX_Forwarded_For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nX-Real-IP: 1.2.3.4\r\n"
        b"X-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\nConnection: close, X-Two, Host, Content-Length\r\n"
        b"X-Two: 2\r\nTE: trailers\r\nTrailer: X\r\nProxy-Authorization: x\r\nUpgrade: h2c\r\n"
        b"Cookie: \xe9=\xff; pharos_session=s\r\nContent-Length: 003\r\n\r\nabc",
    )
    assert await recorder.whole() == (
        b"POST /a%2Fb?c=%20 HTTP/1.1\r\nHost: A.localhost:80\r\nX-One: 1\r\nX-One: 2\r\nCookie: \xe9=\xff\r\n"
        b"Content-Length: 3\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\n"
        b"X-Forwarded-Host: A.localhost:80\r\nConnection: close\r\n\r\nabc"
    )


async def test_origin_claims_of_callers_reach_no_instance(proxy: Carrier, recorder: Recorder) -> None:
    claims = [
        *CLAIM_NAMES,
        *(prefix + more for prefix in CLAIM_PREFIXES for more in ("Port", "Prefix", "Ssl", "Scheme", "URL")),
    ]
    spelled = [*claims, *(name.lower() for name in claims), *(name.replace("-", "_", 1) for name in claims)]
    for some in (spelled[start : start + 50] for start in range(0, len(spelled), 50)):
        lines = "".join(f"{name}: claimed\r\n" for name in some)
        await exchange_raw(proxy.port, GET + lines.encode() + b"X-Mine: 1\r\nConnection: close\r\n\r\n")
    await recorder.whole()
    assert len(recorder.got) > 1
    for got in recorder.got:
        assert b"claimed" not in got and b"X-Mine: 1\r\n" in got


async def test_cookies_of_the_dashboard_reach_no_instance(proxy: Carrier, recorder: Recorder) -> None:
    """Browsers send cookies to every port of a host, so an application would receive the sessions of its visitors."""
    sent = (
        (b"pharos_session=SECRET", b""),
        (b"a=1;__Host-pharos_session=SECRET ; b=2", b"Cookie: a=1; b=2\r\n"),
        (b'a="; __Host-pharos_oidc=SECRET; b="; pharos_session', b'Cookie: a="; b="\r\n'),
        (b"pharos_session_1f2e3d4c=SECRET; __Host-pharos_oidc_00=SECRET; c=3", b"Cookie: c=3\r\n"),
        (b"my_pharos_session=1; pharos_sessions=2;", b"Cookie: my_pharos_session=1; pharos_sessions=2\r\n"),
    )
    for cookie, _ in sent:
        end = b"Cookie: " + cookie + b"\r\nConnection: close\r\n\r\n"
        await exchange_raw(proxy.port, GET + end)
    await recorder.whole()
    for (_, expected), got in zip(sent, recorder.got, strict=True):
        assert b"SECRET" not in got
        assert (
            b"".join(line + b"\r\n" for line in got.split(b"\r\n") if line.startswith(b"Cookie")) == expected
        )


async def test_forwarded_headers_of_a_trusted_gateway_are_kept() -> None:
    recording = Recorder()
    async with proxy_carrier(trusts=lambda peer: True) as proxy, raw_server(recording.serve) as target:
        await proxy.traffic.set_route(1, to(target))
        told = b"X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Port: 443\r\nX-Real-IP: ::1\r\n"
        # A gateway that overwrites X-Forwarded-For forwards this header, and CGI does not distinguish the two.
        unseen = b"X_Forwarded_For: 6.6.6.6\r\n"
        await exchange_raw(proxy.port, GET + told + unseen + b"Connection: close\r\n\r\n")
        got = await recording.whole()
        assert told in got and got.count(b"orwarded") == 3


async def test_the_exact_response_head_for_a_caller(proxy: Carrier, recorder: Recorder) -> None:
    recorder.answer = (
        b"HTTP/1.1 201 Made Here\r\nServer: mine\r\nConnection: close, X-Two\r\nX-Two: 2\r\nKeep-Alive: 5\r\n"
        b"Set-Cookie: a=1\r\nset-cookie:  pharos_oidc =x; Path=/\r\nSet-Cookie: pharos_session_1f2e3d4c=x\r\n"
        b"Set-Cookie: b=2\r\nContent-Length: 002\r\n\r\nok"
    )
    got = await exchange_raw(proxy.port, b"GET / HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
    assert got == (
        b"HTTP/1.1 201 Made Here\r\nServer: mine\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 2\r\n"
        b"Connection: close\r\n\r\nok"
    )


async def test_a_callers_connection_serves_several_requests(proxy: Carrier, recorder: Recorder) -> None:
    one = b"GET /%d HTTP/1.1\r\n" + HOST
    got = await exchange_raw(
        proxy.port, b"".join(one % n + b"\r\n" for n in range(3)) + one % 3 + b"Connection: close\r\n\r\n"
    )
    assert got.count(b"HTTP/1.1 200 OK") == 4 and got.count(b"Connection: close") == 1
    assert [data.split()[1] for data in recorder.got] == [b"/0", b"/1", b"/2", b"/3"]
    got = await exchange_raw(
        proxy.port, b"GET / HTTP/1.0\r\n" + HOST + b"Connection: keep-alive\r\n\r\n", silence=0.3
    )
    assert b"Connection: keep-alive\r\n" in got


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"POST / HTTP/1.1\r\n"
        + HOST
        + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled",
        b"POST / HTTP/1.1\r\n"
        + HOST
        + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\nGET /smuggled",
        POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        POST + b"Content-Length: 5, 5\r\n\r\nabcde",
        POST + b"Content-Length: +5\r\n\r\nabcde",
        POST + b"Content-Length: 0x5\r\n\r\nabcde",
        POST + b"Content-Length : 5\r\n\r\nabcde",
        POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\n"
        + HOST
        + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + b"Host: b.localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost:\r\n\r\n",
        b"GET http://b.localhost/ HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET b.localhost HTTP/1.1\r\n" + HOST + b"\r\n",
        GET + b"X: a\r\n folded: b\r\n\r\n",
        GET + b"X: a\rY: b\r\n\r\n",
        GET + b"X: a\nY: b\r\n\r\n",
        GET + b"X: a\0b\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + b"Expect: miracles\r\n\r\n",
        b"GET /a b HTTP/1.1\r\n" + HOST + b"\r\n",
        b"CONNECT a.localhost:443 HTTP/1.1\r\n" + HOST + b"\r\n",
        GET + b"X: " + b"y" * 40_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n"
        + HOST
        + b"X: "
        + b"y" * 15_000
        + b"\r\nY: "
        + b"y" * 15_000
        + b"\r\nZ: "
        + b"y" * 9000
        + b"\r\n\r\n",
    ],
)
async def test_ambiguous_requests_are_refused(
    proxy: Carrier, recorder: Recorder, request_bytes: bytes
) -> None:
    assert await _status(proxy, request_bytes) in (400, 417, 431, 501)
    assert all(b"smuggled" not in data for data in recorder.got)
    # Nothing reached the instance, unless only the body after a valid head was invalid.
    assert recorder.got == []


async def test_a_chunked_body_is_chunked_again(proxy: Carrier, recorder: Recorder) -> None:
    await exchange_raw(
        proxy.port,
        POST + b"Connection: close\r\nTransfer-Encoding: Chunked\r\n\r\n"
        b"1;ext=1\r\na\r\n2\r\nbc\r\n0\r\nX-Sum: x\r\n\r\n",
    )
    head, _, body = (await recorder.whole()).partition(b"\r\n\r\n")
    assert head.count(b"Transfer-Encoding: chunked") == 1 and b"Content-Length" not in head
    assert body == b"3\r\nabc\r\n0\r\n\r\n"


async def test_an_absolute_target_is_forwarded_as_a_path(proxy: Carrier, recorder: Recorder) -> None:
    for target, path in ((b"http://a.localhost/x?y", b"/x?y"), (b"http://A.localhost?y", b"/?y")):
        data = b"GET " + target + b" HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
        assert await _status(proxy, data) == 200
        assert recorder.got[-1].split()[1] == path
    assert await _status(proxy, b"OPTIONS * HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n") == 200


async def test_responses_without_a_body_end_with_their_head(proxy: Carrier) -> None:
    async with running_application("one") as one:
        await proxy.traffic.set_route(1, to(one.target))
        for method, path, status in (
            (b"HEAD", b"/", b"200"),
            (b"GET", b"/unchanged", b"304"),
            (b"GET", b"/empty", b"204"),
        ):
            first = method + b" " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n"
            last = b"GET /last HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
            got = await exchange_raw(proxy.port, first + last)
            head, _, rest = got.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 " + status) and rest.startswith(b"HTTP/1.1 200 OK\r\n")
            assert (b"Content-Length: " in head) == (method == b"HEAD") and b"Transfer" not in head


async def test_a_body_is_forwarded_after_100_continue(proxy: Carrier) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Expect: 100-continue\r\n" in head
        if b"POST /no" in head:
            writer.write(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n")
            return
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
        body = await reader.readexactly(3)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n" + body)

    async with raw_server(serve) as target:
        await proxy.traffic.set_route(1, to(target))
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        more = b" HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n"
        writer.write(b"POST /yes" + more)
        async with asyncio.timeout(60):
            assert b"103 Early Hints\r\nLink: </a>" in await reader.readuntil(b"\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"abc")
            assert (await reader.readuntil(b"abc")).startswith(b"HTTP/1.1 200 OK")
            writer.write(b"POST /no" + more)
            got = await reader.readuntil(b"\r\n\r\n")
            # It would be ambiguous whether the body or the next request follows.
            assert got.startswith(b"HTTP/1.1 403 No") and b"Connection: close" in got
            assert await reader.read() == b""
        writer.close()


async def _answer_to_what_never_ends(port: int, pieces: list[bytes]) -> bytes:
    """Return all bytes until the proxy closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.suppress(ConnectionError):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
    answer = b""
    async with asyncio.timeout(60):
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                answer += data
    writer.close()
    return answer


async def test_a_head_that_never_ends_is_refused() -> None:
    """The proxy frees its bytes and closes its connection. Earlier requests get responses."""
    async with proxy_carrier(limits=CallerLimits(head_seconds=0.2)) as proxy:
        await _refuses_endless_heads(proxy.port)


async def _refuses_endless_heads(port: int) -> None:
    flood = [b"X-%d: %s\r\n" % (number, b"a" * 5000) for number in range(100)]
    answer = await _answer_to_what_never_ends(port, [GET, *flood])
    assert not answer or b" 431 " in answer
    assert b" 408 " in await _answer_to_what_never_ends(port, [GET, b"X-1: a\r\n"])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(GET + b"\r\n")
    async with asyncio.timeout(60):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 404 ")
        writer.write(GET)
        assert b" 408 " in await reader.read()
    writer.close()


async def test_a_slow_body_does_not_count_as_a_slow_head() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(50_000)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()

    async with (
        proxy_carrier(limits=CallerLimits(head_seconds=0.1)) as proxy,
        raw_server(serve) as target,
    ):
        await proxy.traffic.set_route(1, to(target))
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(POST + b"Content-Length: 50000\r\n\r\n")
        for _ in range(5):
            writer.write(b"x" * 10_000)
            await asyncio.sleep(0.06)
        async with asyncio.timeout(60):
            assert (await reader.readline()).split()[1] == b"200"
        writer.close()


async def test_the_settings_limit_the_size_of_a_head() -> None:
    settings = read_settings(
        {"PHAROS_MAX_HEAD_BYTES": "50000", "PHAROS_MAX_CONNECTIONS_PER_ADDRESS": "7"}, str
    )
    limits = CallerLimits.from_settings(settings)
    assert limits.address_connections == 7
    async with proxy_carrier(limits=limits) as proxy:
        for size, status in ((20_000, 404), (45_000, 404), (60_000, 400)):
            head = GET + b"X: " + b"y" * size + b"\r\nConnection: close\r\n\r\n"
            assert await _status(proxy, head) == status, size
        lines = b"".join(b"X-%d: %s\r\n" % (number, b"y" * 5000) for number in range(12))
        assert await _status(proxy, GET + lines + b"Connection: close\r\n\r\n") in (404, 431)


def _lines(count: int) -> bytes:
    return b"".join(b"x-%d: %s\r\n" % (number, b"a" * 30_000) for number in range(count))


async def test_trailers_without_end_are_refused(proxy: Carrier, recorder: Recorder) -> None:
    """The parser would buffer 120 trailers of 30 kB. Short trailers are read, and the next request gets a response."""
    body = POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
    short = body + b"X-Sum: 1\r\n\r\n" + GET + b"Connection: close\r\n\r\n"
    assert (await exchange_raw(proxy.port, short)).count(b"HTTP/1.1 200 OK") == 2
    begun, rest = asyncio.Event(), []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"1\r\nx\r\n")
        begun.set()
        rest.append(await reader.read())

    async with raw_server(serve) as target:
        await proxy.traffic.set_route(1, to(target))
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(body)
        async with asyncio.timeout(60):
            await begun.wait()
            # All bytes are read before the response, so that no reset discards the response.
            writer.write(_lines(1)[:20_000])
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 400 ") and b"Connection: close" in answer
        writer.close()
        await until(lambda: rest)
        assert rest == [b""]


async def test_the_total_of_response_heads_and_trailers_is_bounded(proxy: Carrier) -> None:
    begun = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
    hint = b"HTTP/1.1 103 Early Hints\r\n%s\r\n" % _lines(1)
    for endless, status, is_whole in (
        (b"HTTP/1.1 200 OK\r\n" + _lines(4), b"502", True),
        (hint * 4, b"502", True),
        (begun + _lines(4), b"200", False),
        (begun + b"X-Sum: 1\r\n\r\n" + b"HTTP/1.1 200 OK\r\n" + _lines(4), b"200", True),
    ):

        async def serve(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, endless: bytes = endless
        ) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(endless)
            await reader.read()

        async with raw_server(serve) as target:
            await proxy.traffic.set_route(1, to(target))
            answer = await exchange_raw(proxy.port, GET + b"Connection: close\r\n\r\n")
            last = answer[answer.rindex(b"HTTP/1.1 ") :]
            assert last.split()[1] == status, answer[:200]
            assert (status == b"502" or last.endswith(b"0\r\n\r\n")) == is_whole, answer[-200:]


async def test_one_pipelined_request_is_read_during_another(proxy: Carrier) -> None:
    """Later requests wait in the kernel, and get their responses in order."""
    step = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await step.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with raw_server(serve) as target:
        await proxy.traffic.set_route(1, to(target))
        traffic = proxy.traffic
        assert isinstance(traffic, StreamingProxy) and traffic._runner is not None
        server = traffic._runner.server
        assert server is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write((GET + b"X: " + b"y" * 20_000 + b"\r\n\r\n") * 31)
        await until(lambda: [one for one in server.connections if one._buffer_paused])
        (connection,) = (one for one in server.connections if one._buffer_paused)
        for _ in range(20):
            await asyncio.sleep(0.005)
            assert len(connection._messages) <= 2
        step.set()
        async with asyncio.timeout(60):
            for _ in range(31):
                assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 OK")
        writer.close()


class _Peer(asyncio.BaseTransport):
    """A connection from an address."""

    def __init__(self, address: str) -> None:
        super().__init__({"peername": (address, 1)})


class _Open:
    """A connection that is idle, or has a request in progress."""

    def __init__(self, *, is_idle: bool = False) -> None:
        self.is_idle = is_idle
        self.is_closed = False

    def force_close(self) -> None:
        self.is_closed = True


def test_connections_of_an_address_are_limited_except_for_gateways() -> None:
    limiter = ConnectionLimiter(2, lambda address: address == "10.0.0.1", loopback=3)
    for first, second in (
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::2"),
        ("::ffff:192.0.2.9", "192.0.2.9"),
    ):
        one = _Open(is_idle=True)
        taken = limiter.admit(_Peer(first), one)
        assert limiter.admit(_Peer(second), _Open()) == taken
        with pytest.raises(Unavailable, match="2 connections already"):
            limiter.admit(_Peer(first), _Open())
        limiter.release(taken, one)
        assert limiter.admit(_Peer(second), _Open()) == taken and not one.is_closed
    for address in ("10.0.0.1", "::ffff:10.0.0.1"):
        assert [limiter.admit(_Peer(address), _Open()) for _ in range(5)] == [NO_ADDRESS] * 5


def test_the_longest_idle_connection_is_closed_over_the_loopback_or_total_limit() -> None:
    """Idle connections do not exclude others. If all connections have requests in flight, a new one is refused."""
    for address, loopback, total in (("127.0.0.1", 3, 9), ("::1", 3, 9), ("10.0.0.1", 1, 3)):
        limiter = ConnectionLimiter(2, lambda peer: peer == "10.0.0.1", loopback=loopback, total=total)
        old, busy, new = _Open(is_idle=True), _Open(), _Open(is_idle=True)
        for one in (old, busy, new):
            assert limiter.admit(_Peer(address), one) == NO_ADDRESS
        limiter.touch(old)
        more = [_Open(), _Open()]
        limiter.admit(_Peer(address), more[0])
        assert new.is_closed and not old.is_closed
        limiter.admit(_Peer(address), more[1])
        assert old.is_closed and not busy.is_closed
        for one in (old, new):
            limiter.release(NO_ADDRESS, one)
        with pytest.raises(Unavailable, match="All 3 connections are in use"):
            limiter.admit(_Peer(address), _Open())
        limiter.release(NO_ADDRESS, busy)
        limiter.admit(_Peer(address), _Open())


async def test_idle_loopback_connections_are_closed_for_new_ones() -> None:
    """A connection with a request in flight stays open, and later requests get responses."""
    step = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await step.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with (
        proxy_carrier(limits=CallerLimits(loopback_connections=4)) as proxy,
        raw_server(serve) as target,
    ):
        await proxy.traffic.set_route(1, to(target))
        traffic = proxy.traffic
        assert isinstance(traffic, StreamingProxy)
        slow, sending = await asyncio.open_connection("127.0.0.1", proxy.port)
        sending.write(GET + b"Connection: close\r\n\r\n")
        await until(lambda: traffic._slots.taken)
        silent = [await asyncio.open_connection("127.0.0.1", proxy.port) for _ in range(20)]
        other = GET.replace(b"a.localhost", b"b.localhost") + b"Connection: close\r\n\r\n"
        assert (await exchange_raw(proxy.port, other)).startswith(b"HTTP/1.1 404 ")
        async with asyncio.timeout(60):
            assert await silent[0][0].read() == b""
            step.set()
            assert (await slow.read()).endswith(b"ok")
        for _, writer in (*silent, (slow, sending)):
            writer.close()


async def test_a_connection_over_the_address_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline_contracts.open_connections.is_loopback", lambda address: False)
    async with proxy_carrier(limits=CallerLimits(address_connections=1)) as proxy:
        _, first = await asyncio.open_connection("127.0.0.1", proxy.port)
        answer = await exchange_raw(proxy.port, GET + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 503 ") and b"\r\nRetry-After: 1\r\n" in answer
        assert b"1 connections already" in answer
        first.close()
        await first.wait_closed()
        async with asyncio.timeout(60):
            while b" 404 " not in await exchange_raw(proxy.port, GET + b"Connection: close\r\n\r\n"):
                await asyncio.sleep(0.01)
