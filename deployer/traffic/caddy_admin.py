"""A client of Caddy's admin API for the configuration of one server."""

from typing import Any

import aiohttp
import orjson

from deployer.traffic.interface import TrafficUnavailable

_SERVERS = "/config/apps/http/servers"
# The parts of the configuration that contain the server. They are created if they are missing; Caddy refuses to
# create existing ones.
_PARENTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/config/apps", {}),
    ("/config/apps/http", {"servers": {}}),
    (_SERVERS, {}),
)
_SECONDS = 15.0


class ConfigurationRefused(Exception):
    """Caddy has refused a configuration; the message is Caddy's error."""


class CaddyAdmin:
    """A client of the admin API at `url`: `http://127.0.0.1:2019` or `unix:///run/caddy/admin.sock`. All calls raise
    `TrafficUnavailable`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: aiohttp.ClientSession | None = None

    async def read_server(self, name: str) -> dict[str, Any] | None:
        """Return the server's configuration; None if Caddy has none."""
        status, body = await self._call("GET", f"{_SERVERS}/{name}")
        if status == 200:
            server: dict[str, Any] | None = orjson.loads(body)
            return server
        if b"traversal" in body:
            # A part of the configuration that contains the server is missing.
            return None
        raise TrafficUnavailable(f"Caddy's admin endpoint {self._url} answered {status}: {_read_error(body)}")

    async def write_server(self, name: str, server: dict[str, Any]) -> None:
        """Create or replace the server. Raises `ConfigurationRefused`."""
        path = f"{_SERVERS}/{name}"
        status, body = await self._call("POST", path, server)
        if status in (400, 500) and b"traversal" in body:
            for parent, empty in _PARENTS:
                # Ignore errors: another client may create the parent at the same time, and the POST reports real
                # faults.
                await self._call("PUT", parent, empty)
            status, body = await self._call("POST", path, server)
        if status == 403:
            raise TrafficUnavailable(
                f"Caddy's admin endpoint {self._url} refuses this process ({_read_error(body)}). Give the address as "
                "Caddy's `admin` option names it, or add it to `origins`."
            )
        if status != 200:
            raise ConfigurationRefused(_read_error(body))

    async def close(self) -> None:
        """Close the client."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _call(self, method: str, path: str, document: Any = None) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"}
        base = self._url.rstrip("/")
        if self._url.startswith("unix://"):
            # On a Unix socket, Caddy accepts only an empty Host header.
            headers["Host"] = ""
            base = "http://caddy"
        data = None if document is None else orjson.dumps(document)
        try:
            async with self._opened().request(method, base + path, data=data, headers=headers) as response:
                return response.status, await response.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise TrafficUnavailable(
                f"Caddy's admin endpoint {self._url} does not answer ({error or type(error).__name__}). Start Caddy, "
                "with its `admin` option on and at this address."
            ) from None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Caddy closes its admin connections with each change of the configuration.
            connector = (
                aiohttp.UnixConnector(self._url.removeprefix("unix://"), force_close=True)
                if self._url.startswith("unix://")
                else aiohttp.TCPConnector(force_close=True)
            )
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=aiohttp.ClientTimeout(total=_SECONDS)
            )
        return self._session


def _read_error(body: bytes) -> str:
    try:
        return str(orjson.loads(body)["error"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return body[:200].decode("utf-8", "replace").strip()
