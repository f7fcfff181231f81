"""Both traffic adapters, for the contract tests."""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from deployer.traffic.caddy import CaddyTraffic
from deployer.traffic.interface import Target, Traffic
from deployer.traffic.proxy.streaming import StreamingProxy
from ingest_edge.listening import bind
from tests.support import fork_server
from tests.support.engines import EngineMissing, free_port, or_skip


class Caddy:
    """A real Caddy that does not persist its configuration."""

    def __init__(self, folder: Path, apps: dict[str, Any] | None = None) -> None:
        self.folder = folder
        self.socket = folder / "admin.sock"
        self.admin_url = f"unix://{self.socket}"
        self._apps = apps or {}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        caddy = shutil.which("caddy")
        if caddy is None:
            raise EngineMissing("Caddy is not installed; on Debian: apt-get install caddy")
        self.socket.unlink(missing_ok=True)
        configuration = {
            "admin": {"listen": f"unix/{self.socket}", "config": {"persist": False}},
            "apps": self._apps,
        }
        (self.folder / "caddy.json").write_text(json.dumps(configuration))
        homes = {name: str(self.folder) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
        with open(self.folder / "caddy.log", "ab") as log:
            self._process = fork_server.popen(
                [caddy, "run", "--config", str(self.folder / "caddy.json")],
                env={**os.environ, **homes},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 60
        while not self._is_listening():
            assert time.monotonic() < deadline and self._process.poll() is None
            time.sleep(0.02)

    def _is_listening(self) -> bool:
        # The socket's file appears before Caddy listens.
        with socket.socket(socket.AF_UNIX) as asking:
            return asking.connect_ex(str(self.socket)) == 0

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
            self._process = None

    @property
    def log(self) -> str:
        return (self.folder / "caddy.log").read_text()


@contextmanager
def running_caddy(folder: Path, apps: dict[str, Any] | None = None) -> Iterator[Caddy]:
    caddy = Caddy(folder, apps)
    try:
        caddy.start()
        yield caddy
    finally:
        caddy.stop()


@dataclass
class Carrier:
    """A traffic adapter, and the address where it listens."""

    traffic: Traffic
    port: int
    session: aiohttp.ClientSession

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def ask(
        self, host: str = "a.localhost", path: str = "/", method: str = "GET", **more: Any
    ) -> tuple[int, Any]:
        try:
            return await self._ask(host, path, method, **more)
        except aiohttp.ClientConnectorError as error:
            # A reload of Caddy resets connections that wait to be accepted (decisions/0017).
            if not (
                isinstance(self.traffic, CaddyTraffic) and isinstance(error.os_error, ConnectionResetError)
            ):
                raise
        return await self._ask(host, path, method, **more)

    async def _ask(self, host: str, path: str, method: str, **more: Any) -> tuple[int, Any]:
        headers = {"Host": host, **more.pop("headers", {})}
        async with self.session.request(method, self.url + path, headers=headers, **more) as answer:
            if "json" in answer.headers.get("Content-Type", ""):
                return answer.status, await answer.json(content_type=None)
            return answer.status, await answer.text()


async def serve_proxy(
    on_request_asleep: Callable[[int], None] = lambda _: None, **options: Any
) -> tuple[StreamingProxy, int]:
    """Run a listening proxy, and yield it with its port."""
    proxy = StreamingProxy(on_request_asleep, **options)
    sock = bind("127.0.0.1", 0)
    await proxy.serve(sock)
    return proxy, sock.getsockname()[1]


def held(proxy: Traffic, host: str = "a.localhost") -> int:
    """Return the number of held requests of the environment at this host."""
    assert isinstance(proxy, StreamingProxy)
    routed = proxy._table.find(host)
    return 0 if routed is None else len(routed.held)


@asynccontextmanager
async def proxy_carrier(**options: Any) -> AsyncIterator[Carrier]:
    async with AsyncExitStack() as exits:
        proxy, port = await serve_proxy(**{"grace_seconds": 0.2, **options})
        exits.push_async_callback(proxy.close)
        session = await exits.enter_async_context(aiohttp.ClientSession())
        yield Carrier(proxy, port, session)


@asynccontextmanager
async def caddy_traffic(admin_url: str, port: int) -> AsyncIterator[CaddyTraffic]:
    """Run a Caddy adapter with a listening proxy."""
    async with AsyncExitStack() as exits:
        behind, waiting = await serve_proxy(grace_seconds=0.2, trusts=lambda peer: True)
        exits.push_async_callback(behind.close)
        traffic = CaddyTraffic(admin_url, f"127.0.0.1:{port}", Target(waiting), behind)
        exits.push_async_callback(traffic.close)
        yield traffic


@asynccontextmanager
async def caddy_carrier(folder: Path) -> AsyncIterator[Carrier]:
    async with AsyncExitStack() as exits:
        caddy = exits.enter_context(or_skip(running_caddy(folder)))
        port = free_port()
        traffic = await exits.enter_async_context(caddy_traffic(caddy.admin_url, port))
        await traffic.set_routes({})
        session = await exits.enter_async_context(aiohttp.ClientSession())
        yield Carrier(traffic, port, session)
