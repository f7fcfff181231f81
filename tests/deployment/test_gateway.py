"""The Caddyfile in a real Caddy, in front of two stand-ins that name themselves in their responses."""

import asyncio
import contextlib
import io
import json
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from control_domain.notifications.signed_links import IncidentLinks, LinkRecipient
from deployer.traffic.proxy.origin_claims import CLAIM_NAMES, CLAIM_PREFIXES
from tests.support.compose_file import ROOT
from tests.support.engines import EngineMissing, free_port, or_skip

EDGE = [
    ("POST", "/api/v1/ingest"),
    ("POST", "/api/v1/otlp/v1/traces"),
    ("POST", "/api/v1/heartbeats/7/runs"),
    ("POST", "/api/v1/queues/7/snapshots"),
    ("POST", "/api/v1/queues/7/workers"),
    ("OPTIONS", "/api/v1/collect/sit_x"),
    ("POST", "/api/v1/collect/sit_x"),
    ("GET", "/tracker/v1.js"),
    ("GET", "/tracker/vitals.js"),
    ("GET", "/api/tracker/v1.js"),
    ("GET", "/ping/phr_png_x"),
    ("POST", "/ping/phr_png_x/fail"),
    ("POST", "/api/1/envelope/"),
    ("OPTIONS", "/api/1/envelope/?sentry_key=x"),
    ("POST", "/api/17/envelope"),
    ("POST", "/api/1/store/"),
    ("GET", "/api/1/cron/nightly/phr_ing_x/?status=ok"),
    ("POST", "/api/1/cron/nightly/phr_ing_x"),
    ("GET", "/api/1/cron/nightly/?sentry_key=x"),
    ("GET", "/api/1/cron/nightly?sentry_key=x"),
    ("GET", "/ping/phr_epk_x/backup/0"),
    ("GET", "/pharos-run.py"),
]
CONTROL = [
    ("GET", "/api/v1/ingest/receipts/rcp_x"),
    ("GET", "/api/v1/me"),
    ("GET", "/api/v1/queues/7"),
    ("POST", "/api/v1/deployments"),
    ("POST", "/api/repositories/1/webhook"),
    ("POST", "/api/git-app/webhook"),
    ("GET", "/api/v1/analytics/sites"),
    ("GET", "/"),
    ("GET", "/incidents/inc_x?s=1"),
    ("POST", "/incidents/inc_x/silence?s=1"),
    ("GET", "/docs/quick-start"),
    ("GET", "/metrics"),
]


@contextmanager
def running_caddy(folder: Path, edges: list[int], control: int, apps: int) -> Iterator[tuple[str, str]]:
    caddy = shutil.which("caddy")
    if caddy is None:
        raise EngineMissing("Caddy is not installed; on Debian: apt-get install caddy")
    port, apps_port = free_port(), free_port()
    env = {
        "PHAROS_GATEWAY_ADDRESS": f"http://127.0.0.1:{port}",
        "PHAROS_EDGE_UPSTREAMS": "to " + " ".join(f"127.0.0.1:{edge}" for edge in edges),
        "PHAROS_CONTROL_UPSTREAM": f"127.0.0.1:{control}",
        "PHAROS_APPS_ADDRESS": f"http://:{apps_port}",
        "PHAROS_APPS_BIND": "127.0.0.1",
        "PHAROS_APPS_UPSTREAM": f"127.0.0.1:{apps}",
        # Everything that Caddy can log: none of it may contain a secret.
        "PHAROS_GATEWAY_LOG_LEVEL": "DEBUG",
        "HOME": str(folder),
    }
    with open(folder / "caddy.log", "wb") as log:
        process = subprocess.Popen(
            [caddy, "run", "--config", str(ROOT / "Caddyfile"), "--adapter", "caddyfile"],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        # Each address has a separate server, and the servers start in any order.
        for listening_port in (port, apps_port):
            _wait(process, listening_port, folder / "caddy.log")
        yield f"http://127.0.0.1:{port}", f"http://127.0.0.1:{apps_port}"
    finally:
        process.terminate()
        process.wait(60)


def _wait(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    """Wait until Caddy listens on this port."""
    deadline = time.monotonic() + 120
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
            return
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-2000:]
        time.sleep(0.05)


class StandIn:
    """Responds to everything with its name and the request."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = 0
        self.requested_paths: list[str] = []
        self._runner: web.ServerRunner | None = None

    async def start(self) -> None:
        self._runner = web.ServerRunner(web.Server(self._answer, access_log=None, auto_decompress=False))
        await self._runner.setup()
        self.port = self.port or free_port()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requested_paths.append(request.path)
        body = await request.read()
        return web.json_response(
            {
                "name": self.name,
                "method": request.method,
                "path": request.raw_path,
                "host": request.headers["Host"],
                "bytes": len(body),
                "encoding": request.headers.get("Content-Encoding"),
                "forwarded": request.headers.get("X-Forwarded-For"),
            }
        )


class Gateway:
    """The addresses of Caddy, and its upstream servers."""

    def __init__(
        self,
        urls: tuple[str, str],
        edges: list[StandIn],
        control: StandIn,
        session: aiohttp.ClientSession,
    ) -> None:
        self.url, self.apps_url = urls
        self.edges = edges
        self.control = control
        self.session = session


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with AsyncExitStack() as exits:
        parts = [StandIn("edge-1"), StandIn("edge-2"), StandIn("control"), StandIn("deployer")]
        for part in parts:
            await part.start()
            exits.push_async_callback(part.stop)
        edges = [parts[0].port, parts[1].port]
        urls = exits.enter_context(or_skip(running_caddy(tmp_path, edges, parts[2].port, parts[3].port)))
        session = await exits.enter_async_context(aiohttp.ClientSession())
        yield Gateway(urls, parts[:2], parts[2], session)


async def test_paths_alone_select_the_server(gateway: Gateway) -> None:
    for expected, requests in (("edge", EDGE), ("control", CONTROL)):
        for method, path in requests:
            async with gateway.session.request(method, gateway.url + path) as answer:
                document = await answer.json()
            assert document["name"].startswith(expected), (method, path)
            assert (document["method"], document["path"]) == (method, path)


async def test_deployed_applications_have_an_address_of_their_own(gateway: Gateway) -> None:
    host = "production.shop.localhost:8090"
    async with gateway.session.post(f"{gateway.apps_url}/api/v1/ingest", headers={"Host": host}) as answer:
        document = await answer.json()
    # The deployer selects the application by the host.
    assert (document["name"], document["host"], document["path"]) == ("deployer", host, "/api/v1/ingest")


async def test_bodies_pass_unchanged_with_the_callers_address(gateway: Gateway) -> None:
    async with gateway.session.post(
        f"{gateway.url}/api/v1/ingest",
        data=io.BytesIO(b"x" * 900_000),
        headers={"Content-Encoding": "gzip", "X-Forwarded-For": "203.0.113.7"},
        skip_auto_headers=["Content-Type"],
    ) as answer:
        document = await answer.json()
    assert (document["bytes"], document["encoding"]) == (900_000, "gzip")
    # The caller's claims are replaced: no trusted proxy stands in front of this gateway.
    assert document["forwarded"] == "127.0.0.1"


async def test_both_edges_are_used_and_one_suffices(gateway: Gateway) -> None:
    async def send() -> int:
        async with gateway.session.post(f"{gateway.url}/api/v1/ingest", data=b"{}") as answer:
            return answer.status

    for _ in range(40):
        assert await send() == 200
    assert all(edge.requested_paths for edge in gateway.edges)
    await gateway.edges[0].stop()
    begun = time.monotonic()
    statuses = [await send() for _ in range(40)]
    took = time.monotonic() - begun
    # One request reaches the stopped edge and gets a 503 with Retry-After; then the edge is skipped for two seconds.
    assert statuses.count(503) <= 1 + took / 2 and set(statuses) <= {200, 503}, statuses


async def test_without_an_edge_the_response_is_503_as_a_problem(gateway: Gateway) -> None:
    for edge in gateway.edges:
        await edge.stop()
    async with gateway.session.post(f"{gateway.url}/api/v1/ingest", data=b"{}") as answer:
        assert answer.status == 503
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.headers["Retry-After"] == "1"
        assert (await answer.json())["status"] == answer.status
    async with gateway.session.get(f"{gateway.url}/api/v1/me") as answer:
        assert answer.status == 200


async def test_no_ping_key_appears_in_the_gateways_log(gateway: Gateway, tmp_path: Path) -> None:
    """Faults are logged with the requested address."""
    for edge in gateway.edges:
        await edge.stop()
    for path in ("phr_png_secret", "phr_png_secret/fail?rid=1", "phr_png_secret?x=1", "phr_epk_secret/job"):
        # The same address in other spellings, or nearly the same.
        for root in ("/ping/", "/%70ing/", "/ping%2F", "//ping/", "/ping//"):
            url = URL(f"{gateway.url}{root}{path}", encoded=True)
            async with gateway.session.get(url, headers={"Referer": str(url)}) as answer:
                assert answer.status == 503
    auth = {"X-Sentry-Auth": "Sentry sentry_key=phr_ing_secret"}
    for path in (
        "envelope/?sentry_version=7&sentry_key=phr_ing_secret&x=1",
        "cron/a/phr_ing_secret/?status=ok",
    ):
        url = f"{gateway.url}/api/1/{path}"
        async with gateway.session.post(url, headers={"Referer": url, **auth}) as answer:
            assert answer.status == 503
    log = (tmp_path / "caddy.log").read_text()
    assert log.count('"uri":"/ping/***') >= 3, log
    assert log.count("phr_ing_***") >= 2, log
    assert "secret" not in log


async def test_no_signature_of_an_incident_and_no_code_of_a_sign_in_appear_in_the_gateways_log(
    gateway: Gateway, tmp_path: Path
) -> None:
    await gateway.control.stop()
    signature = IncidentLinks(b"a receipt key", None).sign("inc_x", LinkRecipient(1), datetime.now(UTC))
    url = f"{gateway.url}/incidents/inc_x?s={signature}&done=silenced"
    async with gateway.session.get(url, headers={"Referer": url}) as answer:
        assert answer.status == 503
    back = f"{gateway.url}/api/v1/session/oidc/callback?state=secretstate&code=4/secretcode"
    async with gateway.session.get(back) as answer:
        assert answer.status == 503
    log = (tmp_path / "caddy.log").read_text()
    assert "/oidc/callback?state=***" in log and "secretstate" not in log and "secretcode" not in log, log
    assert '"uri":"/incidents/inc_x?s=***' in log, log
    assert signature.partition(".")[2] not in log


async def test_the_gateway_bounds_heads(gateway: Gateway) -> None:
    """The gateway alone handles a connection that delays its head: no server behind it can close it."""
    port = URL(gateway.url).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 5000) for number in range(20))
    writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%b\r\n" % (port, lines))
    async with asyncio.timeout(60):
        assert (await reader.readline()).split()[1] == b"431"
    writer.close()


def test_the_gateway_drops_forwarding_headers_of_callers() -> None:
    """This holds for applications too. The deployer's proxy trusts the gateway, and drops these headers of other
    callers."""
    lines = {line.strip() for line in (ROOT / "Caddyfile").read_text().splitlines()}
    for name in (*CLAIM_NAMES, *(f"{prefix}*" for prefix in CLAIM_PREFIXES)):
        assert f"request_header -{name}" in lines


def test_the_gateway_ends_slow_heads() -> None:
    if shutil.which("caddy") is None:
        pytest.skip("Caddy is not installed")
    adapted = subprocess.run(
        ["caddy", "adapt", "--config", str(ROOT / "Caddyfile"), "--adapter", "caddyfile"],
        check=True,
        capture_output=True,
    )
    for server in json.loads(adapted.stdout)["apps"]["http"]["servers"].values():
        assert server["read_header_timeout"] == 10 * 10**9
