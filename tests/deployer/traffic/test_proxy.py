"""The embedded proxy: holding and waking, repeats, limits, and both ends of a connection."""

import asyncio
import contextlib
import tracemalloc
from collections.abc import AsyncIterator

import aiohttp
import pytest
import uvloop

from deployer.traffic.interface import Route, Target
from deployer.traffic.proxy.connector import Connector
from deployer.traffic.proxy.refusals import Unavailable
from deployer.traffic.proxy.routes import RouteTable
from deployer.traffic.proxy.upstream import Upstream, open_upstream
from tests.deployer.traffic.applications import (
    Application,
    answering,
    exchange_raw,
    raw_server,
    running_application,
    until,
)
from tests.deployer.traffic.carriers import Carrier, held, proxy_carrier
from tests.support.engines import free_port

HOST = "a.localhost"
ASLEEP = Route((HOST,), (), is_awaited=False, wakes=True)
AWAITED = Route((HOST,), (), is_awaited=True)


@pytest.fixture
async def proxy() -> AsyncIterator[Carrier]:
    async with proxy_carrier() as carrier:
        yield carrier


@pytest.fixture
async def impatient() -> AsyncIterator[Carrier]:
    """A proxy with short timeouts. On a busy machine it may give up any request."""
    async with proxy_carrier(hold_seconds=1.0, response_timeout_seconds=0.5, silent_seconds=0.6) as carrier:
        yield carrier


@pytest.fixture
async def application(proxy: Carrier) -> AsyncIterator[Application]:
    async with running_application("one") as running:
        await proxy.traffic.set_route(1, to(running.target))
        yield running


def to(*targets: Target) -> Route:
    return Route((HOST,), targets, is_awaited=True)


async def test_a_sleeping_environment_is_woken_once_for_all_requests() -> None:
    woken: list[int] = []
    async with proxy_carrier(on_request_asleep=woken.append) as proxy, running_application("up") as up:
        await proxy.traffic.set_route(7, ASLEEP)
        asking = [asyncio.create_task(proxy.ask(method="POST", data=str(number))) for number in range(20)]
        await until(lambda: held(proxy.traffic) == 20)
        assert woken == [7]
        await proxy.traffic.set_route(7, to(up.target))
        assert [(await ask)[1]["body"] for ask in asking] == [str(number) for number in range(20)]
        await proxy.traffic.set_route(7, ASLEEP)
        asking = [asyncio.create_task(proxy.ask())]
        await until(lambda: held(proxy.traffic) == 1)
        assert woken == [7, 7]
        await proxy.traffic.set_route(7, to(up.target))
        await asking[0]


async def test_a_failed_wake_is_requested_again() -> None:
    woken: list[int] = []
    async with proxy_carrier(on_request_asleep=woken.append, hold_seconds=0.2) as proxy:
        await proxy.traffic.set_route(7, ASLEEP)
        for _ in range(2):
            status, told = await proxy.ask()
            assert status == 503 and "0.2 s" in told["detail"]
        assert woken == [7, 7]


async def test_a_wake_is_requested_again_when_the_first_request_gives_up() -> None:
    """The second request may have begun to wait late."""
    woken: list[int] = []
    table, loop = RouteTable(), asyncio.get_running_loop()
    holding = Connector(table, woken.append, 30.0, held_at_once=10)
    table.set(7, ASLEEP)
    routed = table.find(HOST)
    assert routed is not None
    for _ in range(2):
        with pytest.raises(Unavailable):
            await holding.connect(routed, loop.time() + 0.1)
    assert woken == [7, 7]


async def test_a_held_request_continues_when_a_target_appears(proxy: Carrier) -> None:
    async with running_application("new") as new:
        await proxy.traffic.set_route(1, AWAITED)
        asking = asyncio.create_task(proxy.ask())
        await until(lambda: held(proxy.traffic) == 1)
        assert not asking.done()
        await proxy.traffic.set_route(1, to(new.target))
        assert (await asking)[0] == 200


async def test_a_target_that_was_retired_during_the_connect_gets_no_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_application("old") as old, running_application("new") as new:
        table = RouteTable()
        table.set(1, to(old.target))
        routed = table.find(HOST)
        assert routed is not None

        async def open_during_a_switch(target: Target, _: object) -> Upstream:
            upstream = await open_upstream(target)
            table.set(1, to(new.target))
            return upstream

        monkeypatch.setattr("deployer.traffic.proxy.connector.open_upstream", open_during_a_switch)
        holding = Connector(table, lambda number: None, hold_seconds=10.0, held_at_once=10)
        connected = await holding.connect(routed, asyncio.get_running_loop().time() + 10.0)
        connected.release()
        assert connected.target == new.target
        assert table.count_in_flight(1, old.target) == 0


async def test_a_held_request_times_out(impatient: Carrier) -> None:
    for route in (AWAITED, to(Target(free_port()))):
        await impatient.traffic.set_route(1, route)
        async with impatient.session.get(impatient.url, headers={"Host": HOST}) as answer:
            assert answer.status == 503 and answer.headers["Retry-After"] == "5"
            assert answer.headers["Content-Type"] == "application/problem+json"


async def test_a_request_held_for_a_removed_environment_gets_404(proxy: Carrier) -> None:
    await proxy.traffic.set_route(1, AWAITED)
    asking = asyncio.create_task(proxy.ask())
    await until(lambda: held(proxy.traffic) == 1)
    await proxy.traffic.remove_route(1)
    assert (await asking)[0] == 404


async def test_too_many_concurrent_requests_are_refused() -> None:
    async with (
        proxy_carrier(requests_at_once=5, reserved=0, held_at_once=2) as proxy,
        running_application("one") as one,
    ):
        await proxy.traffic.set_route(1, AWAITED)
        await proxy.traffic.set_route(2, Route(("b.localhost",), (one.target,), is_awaited=True))
        waiting = [asyncio.create_task(proxy.ask()) for _ in range(2)]
        await until(lambda: held(proxy.traffic) == 2)
        # Requests that wait for one environment leave slots for others.
        status, told = await proxy.ask()
        assert status == 503 and "wait" in told["detail"]
        slow = asyncio.gather(*(proxy.ask("b.localhost", "/slow") for _ in range(2)))
        await until(lambda: one.request_count == 2)
        async with proxy.session.get(proxy.url, headers={"Host": "b.localhost"}) as answer:
            assert answer.status == 503 and answer.headers["Retry-After"] == "1"
        one.step.set()
        assert [status for status, _ in await slow] == [200, 200]
        assert (await proxy.ask("b.localhost"))[0] == 200
        await proxy.traffic.set_route(1, to(one.target))
        assert [(await ask)[0] for ask in waiting] == [200, 200]


async def test_a_request_is_repeated_after_the_restart_of_an_instance(proxy: Carrier) -> None:
    seen: list[bytes] = []

    async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))

    port = free_port()
    async with raw_server(die, port):
        await proxy.traffic.set_route(1, to(Target(port)))
        assert (await proxy.ask(method="POST", data="x"))[0] == 502
        assert len(seen) == 1
        assert (await proxy.ask(method="GET", data="a body makes it too much"))[0] == 502
        assert len(seen) == 2
        assert (await proxy.ask())[0] == 502
        assert len(seen) == 5
        asking = asyncio.create_task(proxy.ask(method="OPTIONS"))
        while len(seen) == 5:
            await asyncio.sleep(0.001)
    async with running_application("restarted", port):
        assert (await asking)[1]["name"] == "restarted"


async def test_an_instance_that_never_responds_times_out(impatient: Carrier) -> None:
    async with running_application("one") as application:
        await impatient.traffic.set_route(1, to(application.target))
        for method, body in (("GET", None), ("POST", "x")):
            status, told = await impatient.ask(path="/slow", method=method, data=body)
            assert status == 504 and "0.5 s" in told["detail"]
        assert await impatient.traffic.count_in_flight(1, application.target) == 0


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/2 nonsense\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"HTTP/1.1 000 Nothing\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 001 Nothing\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 099 Nothing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 600 Much\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 999 Most\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 1000 More\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 20 Less\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 -20 Less\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 2x0 Unknown\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1  OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 103 Hints\r\nContent-Length: 5\r\n\r\nabcdeHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 103 Hints\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 103 Hints\r\n\r\n" * 100 + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 102 Processing\r\n\r\n",
    ],
)
async def test_an_invalid_response_is_reported_as_502(proxy: Carrier, answer: bytes) -> None:
    async with raw_server(answering(answer)) as target:
        await proxy.traffic.set_route(1, to(target))
        status, told = await proxy.ask()
        assert status == 502 and told["title"]


async def test_a_truncated_chunked_response_does_not_look_complete(proxy: Carrier) -> None:
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n"
    async with raw_server(answering(data)) as target:
        await proxy.traffic.set_route(1, to(target))
        got = await exchange_raw(proxy.port, b"GET / HTTP/1.1\r\nHost: a.localhost\r\n\r\n")
        assert got.endswith(b"\r\n\r\n5\r\nshort\r\n")
        with pytest.raises(aiohttp.ClientPayloadError):
            await proxy.ask()
        # In HTTP/1.0 the end of the connection is the end of the response; a reset is not.
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"GET / HTTP/1.0\r\nHost: a.localhost\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_a_response_delimited_by_close_is_framed_for_the_caller(proxy: Carrier) -> None:
    async with raw_server(answering(b"HTTP/1.0 200 Fine\r\n\r\nall of it")) as target:
        await proxy.traffic.set_route(1, to(target))
        async with proxy.session.get(proxy.url, headers={"Host": HOST}) as answer:
            assert (answer.reason, await answer.text()) == ("Fine", "all of it")
            assert answer.headers["Transfer-Encoding"] == "chunked"
        got = await exchange_raw(proxy.port, b"GET / HTTP/1.0\r\nHost: a.localhost\r\n\r\n")
        assert got == b"HTTP/1.1 200 Fine\r\nConnection: close\r\n\r\nall of it"


async def test_a_disconnected_caller_ends_the_request_at_the_instance(
    proxy: Carrier, application: Application
) -> None:
    events = await proxy.session.get(proxy.url + "/events", headers={"Host": HOST})
    await events.content.readuntil(b"\n\n")
    assert await proxy.traffic.count_in_flight(1, application.target) == 1
    events.close()
    async with asyncio.timeout(60):
        await application.left.wait()
        while await proxy.traffic.count_in_flight(1, application.target):
            await asyncio.sleep(0.01)


async def test_a_truncated_request_body_is_not_forwarded_as_complete(
    proxy: Carrier, impatient: Carrier
) -> None:
    got: list[bytes] = []
    ended = 0

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal ended
        number = len(got)
        got.append(b"")
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                got[number] += data
        ended += 1

    async def until_ended(count: int) -> None:
        await until(lambda: ended == count)

    async with raw_server(take) as target:
        head = b"POST / HTTP/1.1\r\nHost: a.localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        begun = b"5\r\nabcde\r\n"
        # The caller disconnects.
        await proxy.traffic.set_route(1, to(target))
        _, leaving = await asyncio.open_connection("127.0.0.1", proxy.port)
        leaving.write(head + begun)
        await until(lambda: got and got[0].endswith(begun))
        leaving.close()
        await until_ended(1)
        # The caller stops sending; or it continues with an invalid chunk, which aiohttp does not report.
        await impatient.traffic.set_route(1, to(target))
        for number, later in ((2, b""), (3, b"zz\r\n")):
            answer = await exchange_raw(impatient.port, head + begun, later)
            assert answer[9:12] == b"408"
            await until_ended(number)
        assert len(got) == 3 and all(not data.endswith(b"0\r\n\r\n") for data in got)


async def test_an_instance_may_respond_before_reading_the_body(proxy: Carrier) -> None:
    answer = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"
    async with raw_server(answering(answer)) as target:
        await proxy.traffic.set_route(1, to(target))
        head = b"POST / HTTP/1.1\r\nHost: a.localhost\r\nContent-Length: 1000\r\n\r\n"
        got = await exchange_raw(proxy.port, head + b"x" * 10)
        assert got.startswith(b"HTTP/1.1 413 Too Large") and got.endswith(b"\r\n\r\nno")


async def test_the_proxy_buffers_only_a_little_of_a_body(proxy: Carrier, application: Application) -> None:
    """Send 50 MB to a caller that does not read, and 50 MB to an instance that does not read."""

    async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(5)

    async def send() -> AsyncIterator[bytes]:
        for _ in range(800):
            yield bytes(65536)

    async with raw_server(ignore) as deaf:
        await proxy.traffic.set_route(2, Route(("b.localhost",), (deaf,), is_awaited=True))
        tracemalloc.start()
        try:
            answer = await proxy.session.get(proxy.url + "/big?size=52428800", headers={"Host": HOST})
            sending = asyncio.create_task(proxy.ask("b.localhost", method="POST", data=send()))
            await asyncio.sleep(1)
            # Caller and instance are in this process too, each with separate buffers.
            assert tracemalloc.get_traced_memory()[1] < 6_000_000
        finally:
            tracemalloc.stop()
        answer.close()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def test_either_side_can_end_a_web_socket(proxy: Carrier, application: Application) -> None:
    url = proxy.url + "/socket"
    socket = await proxy.session.ws_connect(url, headers={"Host": HOST})
    assert await proxy.traffic.count_in_flight(1, application.target) == 1
    assert socket._response.connection is not None and socket._response.connection.transport is not None
    socket._response.connection.transport.abort()
    async with asyncio.timeout(60):
        while await proxy.traffic.count_in_flight(1, application.target):
            await asyncio.sleep(0.01)
    await socket.close()
    async with proxy.session.ws_connect(url, headers={"Host": HOST}) as other:
        await application.stop()
        assert (await other.receive(timeout=60)).type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSE)


async def test_a_refused_web_socket_gets_the_response(proxy: Carrier, application: Application) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
        await proxy.session.ws_connect(proxy.url + "/", headers={"Host": HOST})
    assert refusal.value.status == 200
    assert (await proxy.ask())[0] == 200


async def test_close_cuts_off_requests_that_do_not_end() -> None:
    async with running_application("one") as one, proxy_carrier() as proxy:
        await proxy.traffic.set_route(1, to(one.target))
        asking = asyncio.create_task(proxy.ask(path="/slow"))
        socket = await proxy.session.ws_connect(proxy.url + "/socket", headers={"Host": HOST})
        await until(lambda: one.request_count == 1)
        async with asyncio.timeout(60):
            await proxy.traffic.close()
            with pytest.raises(aiohttp.ClientError):
                await asking
            await socket.close()
            # The ends of the cut requests still have to arrive.
            while await proxy.traffic.count_in_flight(1, one.target):
                await asyncio.sleep(0.01)


def test_the_proxy_works_under_uvloop() -> None:
    """The embedded platform runs on uvloop."""

    async def run() -> None:
        async with running_application("one") as one, proxy_carrier() as proxy:
            port = free_port()
            await proxy.traffic.set_route(1, to(Target(port)))
            asking = [asyncio.create_task(proxy.ask(method=method)) for method in ("GET", "POST")]
            await asyncio.sleep(0.1)
            await proxy.traffic.set_route(1, to(one.target))
            assert [(await ask)[0] for ask in asking] == [200, 200]
            data = bytes(1_000_000)
            async with proxy.session.ws_connect(
                proxy.url + "/socket", headers={"Host": HOST}, max_msg_size=0
            ) as socket:
                await socket.send_bytes(data)
                assert await socket.receive_bytes() == data
            async with proxy.session.get(proxy.url + "/big?size=5242880", headers={"Host": HOST}) as answer:
                assert len(await answer.read()) == 5_242_880
            events = await proxy.session.get(proxy.url + "/events", headers={"Host": HOST})
            assert await events.content.readuntil(b"\n\n") == b"data: 0\n\n"
            events.close()
            await one.left.wait()
            async with raw_server(answering(b"HTTP/1.0 200 OK\r\n\r\n")) as target:
                await proxy.traffic.set_route(1, to(target))
                assert (await proxy.ask())[0] == 200

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
