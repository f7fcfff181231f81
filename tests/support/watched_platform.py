"""A real `pharos up` behind a proxy that records the requests of browsers and can be closed and opened again."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from tests.support.engines import free_port
from tests.support.platform_process import PlatformProcess
from tests.support.store_template import copy_store_template

# Headers of the connection, which a proxy does not forward.
_HOP = frozenset(
    {"Connection", "Keep-Alive", "Transfer-Encoding", "Content-Length", "Host", "Date", "Server"}
)


class WatchedPlatform:
    """The proxy and its platform. `requests` counts collect requests by method, and repeated events as `again`."""

    def __init__(self, platform: PlatformProcess) -> None:
        self.port = free_port()
        self.requests: Counter[str] = Counter()
        self.tracker_id: str = platform.credentials["site"]["tracker_id"]
        # Awaited before a collect request is forwarded; may raise an `HTTPException` instead.
        self.before_forwarding: Callable[[], Awaitable[Any]] | None = None
        self._platform = platform
        self._sent: dict[str, dict[str, Any]] = {}
        self._accepted: set[str] = set()
        self._stored: set[str] = set()
        self._runner: web.ServerRunner | None = None
        self._session = aiohttp.ClientSession(auto_decompress=False)
        connector = aiohttp.UnixConnector(str(platform.data / "operator.sock"))
        self._operator = aiohttp.ClientSession(connector=connector)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def events(self) -> list[dict[str, Any]]:
        """Return every stored event as it was sent, in the order of their times. Each must have exactly one row."""
        sql = "SELECT toString(id) AS id, path, is_event, count() AS rows FROM pharos.pageviews GROUP BY ALL"
        async with self._operator.post("http://operator/query", data=sql.encode()) as answer:
            text = await answer.text()
            assert answer.status == 200, text
        stored = [json.loads(line) for line in text.splitlines()]
        assert all(int(row["rows"]) == 1 for row in stored)
        events = []
        for row in stored:
            event = self._sent[row["id"]]
            assert (row["path"], bool(row["is_event"])) == (event["path"], event["type"] == "event")
            events.append(event)
        return sorted(events, key=lambda event: str(event["occurred_at"]))

    async def go_offline(self, seconds: float) -> None:
        """Close the listener for this time, then open it again on the same port."""
        await self.close_listener()
        await asyncio.sleep(seconds)
        await self.open_listener()

    async def open_listener(self) -> None:
        """Open the listener."""
        self._runner = web.ServerRunner(
            web.Server(self._forward, auto_decompress=False), shutdown_timeout=0.1
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    async def close_listener(self) -> None:
        """Close the listener and all connections."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def close(self) -> None:
        """Close the proxy, but not the platform."""
        await self.close_listener()
        await self._session.close()
        await self._operator.close()

    async def _forward(self, request: web.BaseRequest) -> web.StreamResponse:
        is_collect = request.path.startswith("/api/v1/collect/")
        if is_collect:
            self.requests[request.method] += 1
        body = await request.read()
        events = _events_of(body) if is_collect else []
        if is_collect and self.before_forwarding is not None:
            await self.before_forwarding()
        # Before forwarding: a test may query the stored events before the platform's response has arrived here.
        for event in events:
            self._sent.setdefault(event["id"], event)
        headers = {name: value for name, value in request.headers.items() if name not in _HOP}
        url = f"http://127.0.0.1:{self._platform.port}{request.raw_path}"
        async with self._session.request(request.method, url, data=body or None, headers=headers) as answer:
            content = await answer.read()
            if is_collect and answer.status == 202:
                for event in events:
                    self.requests["again"] += event["id"] in self._accepted
                    self._accepted.add(event["id"])
            back = {name: value for name, value in answer.headers.items() if name not in _HOP}
            return web.Response(status=answer.status, body=content, headers=back)


def _events_of(body: bytes) -> list[dict[str, Any]]:
    """Return the events of a collect request; none if the body is invalid."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        events: list[dict[str, Any]] = json.loads(body)["events"]
        return events
    return []


@asynccontextmanager
async def watched_platform(folder: Path, origin: str) -> AsyncIterator[WatchedPlatform]:
    """Yield a platform whose first site accepts events from pages of this origin."""
    platform = PlatformProcess(folder / "platform")
    copy_store_template(platform.data / "clickhouse")
    await asyncio.to_thread(platform.start)
    watched = None
    try:
        added = await asyncio.to_thread(platform.run, "site", "add-domain", "1", origin)
        assert added.returncode == 0, added.stderr
        watched = WatchedPlatform(platform)
        await watched.open_listener()
        yield watched
    finally:
        if watched is not None:
            with contextlib.suppress(aiohttp.ClientError):
                await watched.close()
        platform.kill()
