"""The common behaviour of both traffic adapters."""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from deployer.traffic.interface import Route, Target, drain
from tests.deployer.traffic.applications import (
    Application,
    answering,
    raw_server,
    running_application,
    until,
)
from tests.deployer.traffic.carriers import Carrier, caddy_carrier, proxy_carrier
from tests.support.engines import free_port

HOST = "a.localhost"
BIG = 20 * 1024 * 1024


@pytest.fixture(params=["proxy", "caddy"])
async def carrier(request: pytest.FixtureRequest) -> AsyncIterator[Carrier]:
    if request.param == "proxy":
        async with proxy_carrier() as opened:
            yield opened
    else:
        # Paths in pytest's folders are too long for a Unix socket.
        with tempfile.TemporaryDirectory(prefix="caddy-") as folder:
            async with caddy_carrier(Path(folder)) as opened:
                yield opened


def to(*targets: Target, host: str = HOST, draining: tuple[Target, ...] = ()) -> Route:
    return Route((host,), targets, is_awaited=True, draining=draining)


async def test_the_host_selects_the_environment(carrier: Carrier) -> None:
    async with running_application("one") as one, running_application("two") as two:
        await carrier.traffic.set_route(1, to(one.target))
        await carrier.traffic.set_route(
            2, Route(("b.localhost", "www.b.example"), (two.target,), is_awaited=True)
        )
        for host, name in ((HOST, "one"), ("A.LocalHost:81", "one"), ("www.b.example", "two")):
            status, told = await carrier.ask(host, "/x%2Fy?q=%20")
            assert (status, told["name"], told["path"]) == (200, name, "/x%2Fy?q=%20")
            assert ["Host", host] in told["headers"]
        status, told = await carrier.ask("nobody.localhost")
        assert status == 404 and "nobody.localhost" in told["detail"]
        await carrier.traffic.remove_route(1)
        assert (await carrier.ask())[0] == 404
        assert (await carrier.ask("b.localhost"))[1]["name"] == "two"


async def test_requests_for_a_stopped_application_are_refused_at_once(carrier: Carrier) -> None:
    await carrier.traffic.set_route(1, Route((HOST,), (), is_awaited=False))
    # A held request would get another response, after half a minute.
    async with asyncio.timeout(25):
        for method in ("GET", "POST"):
            status, told = await carrier.ask(method=method)
            assert status == 503 and told["status"] == 503
            assert told["detail"] == "The application is not running."


@pytest.mark.parametrize("keeps_alive", [False, True], ids=["new-connections", "kept-connections"])
async def test_a_switch_under_load_loses_no_request(carrier: Carrier, keeps_alive: bool) -> None:
    """Send 200 requests a second, GET and POST. After a switch, no request goes to the old instance."""
    loop = asyncio.get_running_loop()
    connector = aiohttp.TCPConnector(force_close=not keeps_alive, limit=0)
    answers: list[tuple[float, float, str]] = []

    async def send(session: aiohttp.ClientSession, number: int) -> None:
        begun = loop.time()
        method, body = ("POST", "x" * 2000) if number % 2 else ("GET", None)
        async with session.request(method, carrier.url, data=body, headers={"Host": HOST}) as answer:
            told = await answer.json()
            assert answer.status == 200 and told["body"] == (body or ""), told
            answers.append((begun, loop.time(), told["name"]))

    async with (
        running_application("old") as old,
        running_application("new") as new,
        aiohttp.ClientSession(connector=connector) as session,
    ):
        await carrier.traffic.set_route(1, to(old.target))
        live, other = old, new
        switches = []
        async with asyncio.TaskGroup() as sending:
            for number in range(400):
                sending.create_task(send(session, number))
                await asyncio.sleep(0.005)
                if number % 100 == 50:
                    live, other = other, live
                    await carrier.traffic.set_route(1, to(live.target, draining=(other.target,)))
                    switches.append((loop.time(), live.name))
                    assert await drain(carrier.traffic, 1, [other.target], 60)
    assert len(answers) == 400
    for begun, ended, name in answers:
        live_then = [switched for at, switched in switches if at <= begun][-1:] or ["old"]
        assert name in live_then + [switched for at, switched in switches if begun < at <= ended]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_requests_wait_for_an_instance_that_refuses(carrier: Carrier, method: str) -> None:
    port = free_port()
    await carrier.traffic.set_route(1, to(Target(port)))
    body = "kept" if method == "POST" else None
    asking = asyncio.create_task(carrier.ask(method=method, data=body))
    await asyncio.sleep(0.3)
    assert not asking.done()
    async with running_application("back", port):
        status, told = await asking
    assert (status, told["name"], told["body"]) == (200, "back", body or "")


async def test_requests_continue_to_the_next_release_when_the_old_one_refuses(carrier: Carrier) -> None:
    await carrier.traffic.set_route(1, to(Target(free_port())))
    asking = [asyncio.create_task(carrier.ask(method=method)) for method in ("GET", "POST")]
    await asyncio.sleep(0.2)
    async with running_application("next") as following:
        await carrier.traffic.set_route(1, to(following.target))
        assert [(await ask)[1]["name"] for ask in asking] == ["next", "next"]


async def test_one_accepting_instance_of_two_is_enough(carrier: Carrier) -> None:
    async with running_application("alive") as alive:
        await carrier.traffic.set_route(1, to(alive.target, Target(free_port())))
        for number in range(10):
            status, told = await carrier.ask(method="POST" if number % 2 else "GET")
            assert (status, told["name"]) == (200, "alive")


async def test_the_least_busy_instance_gets_the_request(carrier: Carrier) -> None:
    async with running_application("one") as one, running_application("two") as two:
        await carrier.traffic.set_route(1, to(one.target, two.target))
        slow = [asyncio.create_task(carrier.ask(path="/slow")) for _ in range(6)]
        await until(lambda: one.request_count + two.request_count == 6)
        assert (one.request_count, two.request_count) == (3, 3)
        assert await carrier.traffic.count_in_flight(1, one.target) == 3
        one.step.set()
        two.step.set()
        await asyncio.gather(*slow)


async def test_events_arrive_one_by_one(carrier: Carrier) -> None:
    async with running_application("events") as application:
        await carrier.traffic.set_route(1, to(application.target))
        async with carrier.session.get(carrier.url + "/events", headers={"Host": HOST}) as answer:
            for number in range(4):
                async with asyncio.timeout(60):
                    assert await answer.content.readuntil(b"\n\n") == b"data: %d\n\n" % number
                assert await carrier.traffic.count_in_flight(1, application.target) == 1
                application.step.set()
        async with asyncio.timeout(60):
            await application.left.wait()
        await _until_idle(carrier, application)


@pytest.mark.parametrize("compress", [0, 15])
async def test_web_sockets_pass_both_ways(carrier: Carrier, compress: int) -> None:
    async with running_application("chat") as application:
        await carrier.traffic.set_route(1, to(application.target))
        async with carrier.session.ws_connect(
            carrier.url + "/socket",
            headers={"Host": HOST},
            protocols=["other", "chat"],
            compress=compress,
            max_msg_size=0,
        ) as socket:
            assert socket.protocol == "chat" and socket.compress == compress
            await socket.send_str("hello")
            assert await socket.receive_str() == "chat: hello"
            data = hashlib.sha256(b"seed").digest() * 300_000
            await socket.send_bytes(data)
            assert await socket.receive_bytes() == data
            await socket.ping()
            assert await carrier.traffic.count_in_flight(1, application.target) == 1
            await socket.send_str("end")
            message = await socket.receive()
            assert (message.type, message.data, message.extra) == (aiohttp.WSMsgType.CLOSE, 4001, "as asked")
        await _until_idle(carrier, application)


async def test_big_bodies_pass_both_ways(carrier: Carrier) -> None:
    async def body() -> AsyncIterator[bytes]:
        for number in range(BIG // 65536):
            yield bytes([number % 256]) * 65536

    digest = hashlib.sha256()
    async for data in body():
        digest.update(data)
    async with running_application("big") as application:
        await carrier.traffic.set_route(1, to(application.target))
        for headers in ({}, {"Content-Length": str(BIG)}):
            assert await carrier.ask(path="/digest", method="POST", data=body(), headers=headers) == (
                200,
                digest.hexdigest(),
            )
        for query in (f"/big?size={BIG}", f"/big?size={BIG}&length=1"):
            async with carrier.session.get(carrier.url + query, headers={"Host": HOST}) as answer:
                assert sum([len(data) async for data in answer.content.iter_any()]) == BIG


async def test_drain_waits_for_requests_in_flight(carrier: Carrier) -> None:
    async with running_application("old") as old, running_application("new") as new:
        await carrier.traffic.set_route(1, to(old.target))
        slow = [asyncio.create_task(carrier.ask(path="/slow", method=method)) for method in ("GET", "POST")]
        await until(lambda: old.request_count == 2)
        await carrier.traffic.set_route(1, to(new.target, draining=(old.target,)))
        # Other environments change meanwhile.
        await carrier.traffic.set_route(2, to(new.target, host="b.localhost"))
        assert await carrier.traffic.count_in_flight(1, old.target) == 2
        assert (await carrier.ask())[1]["name"] == "new"
        assert not await drain(carrier.traffic, 1, [old.target], 0.3)
        draining = asyncio.create_task(drain(carrier.traffic, 1, [old.target], 60))
        await asyncio.sleep(0.1)
        assert not draining.done()
        old.step.set()
        assert [(await ask)[1]["name"] for ask in slow] == ["old", "old"]
        assert await draining


async def test_all_routes_can_be_set_at_once(carrier: Carrier) -> None:
    async with running_application("one") as one:
        await carrier.traffic.set_route(1, to(one.target))
        await carrier.traffic.set_routes({2: to(one.target, host="b.localhost")})
        assert (await carrier.ask())[0] == 404
        assert (await carrier.ask("b.localhost"))[0] == 200


async def test_a_host_belongs_to_the_route_that_was_set_last(carrier: Carrier) -> None:
    async with running_application("one") as one, running_application("two") as two:
        await carrier.traffic.set_route(1, to(one.target))
        await carrier.traffic.set_route(2, to(two.target))
        assert (await carrier.ask())[1]["name"] == "two"


async def test_a_truncated_response_does_not_look_complete(carrier: Carrier) -> None:
    """The response has a known length: Caddy 2.6 completes truncated chunked responses."""
    async with raw_server(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")) as target:
        await carrier.traffic.set_route(1, to(target))
        with pytest.raises(aiohttp.ClientPayloadError):
            await carrier.ask()


async def test_safe_requests_are_repeated_when_an_instance_dies(carrier: Carrier) -> None:
    async with raw_server(_die) as dying, running_application("alive") as alive:
        await carrier.traffic.set_route(1, to(dying))
        assert (await carrier.ask())[0] == 502
        responses = (
            await carrier.ask(method="POST", data="once"),
            await carrier.ask(method="DELETE"),
        )
        assert [status for status, _ in responses] == [502, 502]
        await carrier.traffic.set_route(1, to(dying, alive.target))
        for _ in range(6):
            assert (await carrier.ask())[1]["name"] == "alive"


async def _die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")


async def _until_idle(carrier: Carrier, application: Application) -> None:
    async with asyncio.timeout(60):
        while await carrier.traffic.count_in_flight(1, application.target):
            await asyncio.sleep(0.02)
