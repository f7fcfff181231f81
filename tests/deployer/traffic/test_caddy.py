"""The adapter for a Caddy that has other servers in its configuration."""

import asyncio
import socket
import ssl
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from deployer.traffic.caddy import SERVER, CaddyTraffic, build_server
from deployer.traffic.caddy_admin import CaddyAdmin
from deployer.traffic.interface import Route, Target, TrafficUnavailable
from deployer.traffic.proxy.origin_claims import CLAIM_NAMES, CLAIM_PREFIXES
from tests.deployer.traffic.applications import running_application, until
from tests.deployer.traffic.carriers import (
    Caddy,
    Carrier,
    caddy_traffic,
    held,
    running_caddy,
    serve_proxy,
)
from tests.support.engines import free_port, or_skip

HOST = "a.localhost"


def to(*targets: Target, **more: Any) -> Route:
    return Route((HOST,), targets, is_awaited=True, **more)


def foreign_server(port: int) -> dict[str, Any]:
    answer = {"handler": "static_response", "body": "somebody's"}
    return {"listen": [f"127.0.0.1:{port}"], "routes": [{"handle": [answer]}]}


@pytest.fixture
def folder() -> Iterator[Path]:
    # Paths in pytest's folders are too long for a Unix socket.
    with tempfile.TemporaryDirectory(prefix="caddy-") as name:
        yield Path(name)


@pytest.fixture
def foreign_port() -> int:
    return free_port()


@pytest.fixture
def caddy(folder: Path, foreign_port: int) -> Iterator[Caddy]:
    with or_skip(
        running_caddy(folder, {"http": {"servers": {"theirs": foreign_server(foreign_port)}}})
    ) as caddy:
        yield caddy


@pytest.fixture
async def carrier(caddy: Caddy) -> AsyncIterator[Carrier]:
    port = free_port()
    async with caddy_traffic(caddy.admin_url, port) as traffic, aiohttp.ClientSession() as session:
        yield Carrier(traffic, port, session)


def adapter(carrier: Carrier) -> CaddyTraffic:
    assert isinstance(carrier.traffic, CaddyTraffic)
    return carrier.traffic


def count_admin_requests(caddy: Caddy) -> int:
    """Return the number of requests to Caddy's admin endpoint."""
    return caddy.log.count("received request")


async def read_hosts(caddy: Caddy) -> list[str]:
    admin = CaddyAdmin(caddy.admin_url)
    server = await admin.read_server(SERVER)
    await admin.close()
    assert server is not None
    hosts: list[str] = server["routes"][0]["match"][0]["host"]
    return hosts


async def test_other_parts_of_the_configuration_stay_unchanged(
    carrier: Carrier, caddy: Caddy, foreign_port: int
) -> None:
    async with running_application("one") as one:
        await carrier.traffic.set_route(1, to(one.target))
        assert (await carrier.ask())[1]["name"] == "one"
        async with carrier.session.get(f"http://127.0.0.1:{foreign_port}") as answer:
            assert await answer.text() == "somebody's"
        admin = CaddyAdmin(caddy.admin_url)
        assert await admin.read_server("theirs") == foreign_server(foreign_port)
        await carrier.traffic.set_routes({})
        assert await admin.read_server("theirs") == foreign_server(foreign_port)
        await admin.close()


async def test_a_restarted_caddy_gets_its_routes_back(carrier: Carrier, caddy: Caddy) -> None:
    async with running_application("one") as one:
        await carrier.traffic.set_route(1, to(one.target))
        assert not await adapter(carrier).ensure()
        caddy.stop()
        with pytest.raises(TrafficUnavailable, match="Start Caddy"):
            await adapter(carrier).ensure()
        with pytest.raises(TrafficUnavailable, match="Start Caddy"):
            await carrier.traffic.set_route(2, Route(("b.localhost",), (one.target,), is_awaited=True))
        # Other environments are not affected.
        await carrier.traffic.set_route(1, to(one.target))
        caddy.start()
        with pytest.raises(aiohttp.ClientConnectionError):
            await carrier.ask()
        assert await adapter(carrier).ensure()
        assert not await adapter(carrier).ensure()
        for host in (HOST, "b.localhost"):
            assert (await carrier.ask(host))[0] == 200


async def test_many_concurrent_changes_cause_few_reloads(carrier: Carrier, caddy: Caddy) -> None:
    await carrier.traffic.set_routes({})
    before = count_admin_requests(caddy)
    async with running_application("one") as one:
        routes = [Route((f"e{number}.localhost",), (one.target,), is_awaited=True) for number in range(50)]
        await asyncio.gather(*(carrier.traffic.set_route(n, route) for n, route in enumerate(routes)))
        assert count_admin_requests(caddy) - before <= 3
        for number in (0, 49):
            assert (await carrier.ask(f"e{number}.localhost"))[0] == 200


async def test_caddy_is_not_reconfigured_for_a_switch_a_scaling_a_crash_or_a_sleep(
    carrier: Carrier, caddy: Caddy
) -> None:
    async with running_application("one") as one, running_application("two") as two:
        await carrier.traffic.set_routes({1: to(one.target), 2: Route(("b.localhost",), (), True)})
        before = count_admin_requests(caddy)
        assert before
        routes = (
            to(two.target, draining=(one.target,)),
            to(one.target, two.target),
            to(two.target),
            Route((HOST,), (), is_awaited=True),
            Route((HOST,), (), is_awaited=False, wakes=True),
            to(one.target),
        )
        for route in routes:
            await carrier.traffic.set_route(1, route)
            assert await carrier.traffic.count_in_flight(1, one.target) == 0
        assert (await carrier.ask())[1]["name"] == "one"
        assert count_admin_requests(caddy) == before


async def test_the_configuration_lists_the_hosts_of_environments(carrier: Carrier, caddy: Caddy) -> None:
    def at(*hosts: str) -> Route:
        return Route(hosts, (), is_awaited=False)

    await carrier.traffic.set_routes({1: at("a.localhost"), 2: at("b.localhost", "www.b.example")})
    assert await read_hosts(caddy) == ["a.localhost", "b.localhost", "www.b.example"]
    await carrier.traffic.set_route(2, at("c.localhost"))
    assert await read_hosts(caddy) == ["a.localhost", "c.localhost"]
    await carrier.traffic.remove_route(1)
    assert await read_hosts(caddy) == ["c.localhost"]
    await asyncio.gather(carrier.traffic.remove_route(2), carrier.traffic.set_route(2, at("c.localhost")))
    assert await read_hosts(caddy) == ["c.localhost"]


async def test_a_new_environment_closes_idle_connections_and_cuts_no_request_in_flight(
    carrier: Carrier,
) -> None:
    """Requests and streams in flight continue; Caddy closes idle connections, and up to 2.6 every WebSocket."""
    async with running_application("one") as one:
        await carrier.traffic.set_route(1, to(one.target))
        at_rest = await asyncio.open_connection("127.0.0.1", carrier.port)
        at_rest[1].write(b"HEAD / HTTP/1.1\r\nHost: a.localhost\r\n\r\n")
        await at_rest[0].readuntil(b"\r\n\r\n")
        url, host = carrier.url, {"Host": HOST}
        async with (
            carrier.session.get(url + "/events", headers=host) as events,
            carrier.session.ws_connect(url + "/socket", headers=host) as socket,
        ):
            assert await events.content.readuntil(b"\n\n") == b"data: 0\n\n"
            slow = [
                asyncio.create_task(carrier.ask(path="/slow", method=method, data=body))
                for method, body in (("GET", None), ("POST", "x" * 100_000))
            ]
            while await carrier.traffic.count_in_flight(1, one.target) < 4:
                await asyncio.sleep(0.01)
            # The requests that wait for steps, and the first one.
            await until(lambda: one.request_count == 4)
            await carrier.traffic.set_route(2, Route(("b.localhost",), (one.target,), is_awaited=True))
            assert (await carrier.ask("b.localhost"))[0] == 200
            async with asyncio.timeout(60):
                assert await at_rest[0].read() == b""
                if caddy_version() >= (2, 7):
                    await socket.send_str("still")
                    assert await socket.receive_str() == "one: still"
                else:
                    # Going away: a reconnecting client reaches the same application.
                    assert (await socket.receive())[:2] == (aiohttp.WSMsgType.CLOSE, 1001)
                one.step.set()
                assert await events.content.readuntil(b"\n\n") == b"data: 1\n\n"
                one.step.set()
                assert [(await ask)[0] for ask in slow] == [200, 200]
        at_rest[1].close()


def caddy_version() -> tuple[int, ...]:
    told = subprocess.run(["caddy", "version"], check=True, capture_output=True, text=True).stdout
    return tuple(int(part) for part in told.split()[0].lstrip("v").split(".")[:2])


async def test_applications_get_the_true_address_of_the_caller(carrier: Carrier) -> None:
    names = [
        *CLAIM_NAMES,
        *(f"{prefix}{more}" for prefix in CLAIM_PREFIXES for more in ("For", "Proto", "Host", "URL")),
    ]
    claimed = dict.fromkeys((*names, *(name.replace("-", "_") for name in names)), "claimed")
    async with running_application("one") as one:
        await carrier.traffic.set_route(1, to(one.target))
        for method in ("GET", "POST"):
            told = (await carrier.ask(method=method, headers=claimed))[1]["headers"]
            assert not [pair for pair in told if pair[1] == "claimed"]
            assert sorted(pair for pair in told if "orwarded" in pair[0]) == [
                ["X-Forwarded-For", "127.0.0.1"],
                ["X-Forwarded-Host", HOST],
                ["X-Forwarded-Proto", "http"],
            ]
            assert ["Host", HOST] in told


async def test_a_taken_address_is_reported(caddy: Caddy, foreign_port: int) -> None:
    async with running_application("one") as one:
        for port, told in ((one.target.port, "another program does"), (foreign_port, "Another server")):
            async with caddy_traffic(caddy.admin_url, port) as traffic:
                with pytest.raises(TrafficUnavailable, match=told):
                    await traffic.set_route(1, to(one.target))


async def test_an_admin_endpoint_on_a_port_gets_its_own_host_name(caddy: Caddy) -> None:
    port = free_port()
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(caddy.socket))) as session:
        moved = {"listen": f"127.0.0.1:{port}", "enforce_origin": True}
        async with session.post("http://x/config/admin", json=moved, headers={"Host": ""}) as answer:
            assert answer.status == 200
    await until(lambda: _is_listening(port))
    async with caddy_traffic(f"http://127.0.0.1:{port}", free_port()) as traffic:
        with pytest.raises(TrafficUnavailable, match="refuses this process"):
            await traffic.set_routes({})


def _is_listening(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


async def test_a_sleeping_environment_is_woken_through_caddy(caddy: Caddy) -> None:
    woken: list[int] = []
    behind, waiting = await serve_proxy(woken.append, grace_seconds=0.2, trusts=lambda peer: True)
    port = free_port()
    traffic = CaddyTraffic(caddy.admin_url, f"127.0.0.1:{port}", Target(waiting), behind)
    async with running_application("up") as up, aiohttp.ClientSession() as session:
        carrier = Carrier(traffic, port, session)
        await traffic.set_route(7, Route((HOST,), (), is_awaited=False, wakes=True))
        asking = [asyncio.create_task(carrier.ask(method=method)) for method in ("GET", "POST", "GET")]
        await until(lambda: held(behind) == 3)
        assert woken == [7]
        await traffic.set_route(7, to(up.target))
        assert [(await ask)[1]["name"] for ask in asking] == ["up"] * 3
    await traffic.close()
    await behind.close()


async def test_on_443_named_hosts_get_certificates_and_http_2(folder: Path) -> None:
    """Caddy's own authority issues the certificates, and Caddy listens on another port, so the test runs anywhere."""
    https, plain = free_port(), free_port()
    apps = {
        "http": {"http_port": plain, "servers": {}},
        "pki": {"certificate_authorities": {"local": {"install_trust": False}}},
    }
    behind, waiting = await serve_proxy(grace_seconds=0.2, trusts=lambda peer: True)
    server = build_server([HOST], listen=":443", proxy_target=Target(waiting), keeps_streams=False)
    with or_skip(running_caddy(folder, apps)) as caddy:
        admin = CaddyAdmin(caddy.admin_url)
        await admin.write_server(SERVER, server | {"listen": [f"127.0.0.1:{https}"]})
        await admin.close()
        root = folder / "caddy/pki/authorities/local/root.crt"
        context = ssl.create_default_context(cafile=str(root))
        async with running_application("one") as one, aiohttp.ClientSession() as session:
            await behind.set_route(1, to(one.target))
            url, told = f"https://127.0.0.1:{https}", {"Host": HOST}
            async with asyncio.timeout(120):
                answer = await _get_when_certified(session, url, told, context)
            assert ["X-Forwarded-Proto", "https"] in answer["headers"]
        context.set_alpn_protocols(["h2"])
        _, writer = await asyncio.open_connection("127.0.0.1", https, ssl=context, server_hostname=HOST)
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
        writer.close()
        with pytest.raises(ssl.SSLError):
            await asyncio.open_connection("127.0.0.1", https, ssl=context, server_hostname="b.localhost")
    await behind.close()


async def _get_when_certified(
    session: aiohttp.ClientSession, url: str, headers: dict[str, str], context: ssl.SSLContext
) -> Any:
    """Caddy gets certificates in the background."""
    while True:
        try:
            async with session.get(url, headers=headers, ssl=context, server_hostname=HOST) as answer:
                return await answer.json()
        except aiohttp.ClientConnectionError:
            await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    ("listen", "is_plain"),
    [(":443", False), ("10.0.0.1:443", False), (":80", True), ("127.0.0.1:8443", True)],
)
def test_certificates_are_for_the_port_of_https(listen: str, is_plain: bool) -> None:
    server = build_server([HOST], listen=listen, proxy_target=Target(3, "::1"), keeps_streams=True)
    assert server["automatic_https"] == {"disable": is_plain}
    _, proxy = server["routes"][1]["handle"]
    assert proxy["upstreams"] == [{"dial": "[::1]:3"}] and proxy["stream_close_delay"] == 86_400_000_000_000
