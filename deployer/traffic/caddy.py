"""Routes traffic through a Caddy next to Pharos: maintains one server in Caddy's configuration.

Caddy's server lists the hosts, so that Caddy gets their certificates, and sends all requests to the embedded proxy,
which knows the routes. So a new release does not change Caddy's configuration.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from deployer.traffic.caddy_admin import CaddyAdmin, ConfigurationRefused
from deployer.traffic.interface import Route, Target, Traffic, TrafficUnavailable
from deployer.traffic.proxy.origin_claims import CLAIM_NAMES, CLAIM_PREFIXES

SERVER = "pharos_apps"
STREAM_CLOSE_DELAY = "stream_close_delay"

_SECOND = 1_000_000_000
_HTTPS_PORT = 443
# Not -1, which flushes immediately: up to 2.7, Caddy with that value also cuts off each request when the configuration
# changes. Caddy always flushes events and bodies of unknown length immediately.
_FLUSH_NANOSECONDS = 10_000_000
# Shorter than the proxy's idle timeout, so that the proxy does not close a connection that Caddy is about to reuse.
_IDLE_SECONDS = 30
# How long WebSockets stay open after a change of the configuration, for example for a new environment.
_STREAM_CLOSE_SECONDS = 24 * 3600
# Like the embedded proxy, Caddy drops callers' claims about themselves before it sets X-Forwarded-*. The proxy drops
# spellings with underscores.
_CLAIMED = [*CLAIM_NAMES, *(f"{prefix}*" for prefix in CLAIM_PREFIXES)]


class CaddyTraffic:
    """A `Traffic`. `set_routes`, `set_route`, `remove_route` and `ensure` raise `TrafficUnavailable`.

    `listen`: Caddy's form of an address, `127.0.0.1:8080` or `:443`. `proxy` is a `StreamingProxy` that trusts Caddy
    and handles every request; `proxy_target` is its address. Caddy closes idle connections at each change of its
    configuration, so the configuration contains only the hosts and is written only when the hosts change.
    """

    def __init__(self, admin_url: str, listen: str, proxy_target: Target, proxy: Traffic) -> None:
        self._admin = CaddyAdmin(admin_url)
        self._listen = listen
        self._proxy_target = proxy_target
        self._proxy = proxy
        self._hosts: dict[int, tuple[str, ...]] = {}
        self._configured_hosts: frozenset[str] | None = None
        """The hosts in Caddy's configuration. None if they were not written yet."""
        self._keeps_streams = True
        self._write_lock = asyncio.Lock()

    async def set_routes(self, routes: Mapping[int, Route]) -> None:
        """See `Traffic`."""
        await self._proxy.set_routes(routes)
        self._hosts = {number: route.hosts for number, route in routes.items()}
        await self._name_hosts()

    async def set_route(self, environment_id: int, route: Route) -> None:
        """See `Traffic`. If it raises, the route is active, but Caddy lacks its hosts until the next change or
        `ensure`."""
        await self._proxy.set_route(environment_id, route)
        before = self._hosts.get(environment_id)
        self._hosts[environment_id] = route.hosts
        if before != route.hosts or not (self._configured_hosts or frozenset()).issuperset(route.hosts):
            await self._name_hosts()

    async def remove_route(self, environment_id: int) -> None:
        """See `Traffic`."""
        await self._proxy.remove_route(environment_id)
        if self._hosts.pop(environment_id, None) is not None:
            await self._name_hosts()

    async def count_in_flight(self, environment_id: int, target: Target) -> int:
        """See `Traffic`."""
        return await self._proxy.count_in_flight(environment_id, target)

    async def end_streams(self, environment_id: int, target: Target) -> None:
        """See `Traffic`."""
        await self._proxy.end_streams(environment_id, target)

    async def ensure(self) -> bool:
        """Write the server again if Caddy has lost it, by a restart or because its configuration was replaced. Return
        True if the server was written."""
        async with self._write_lock:
            hosts = self._desired_hosts()
            if await self._admin.read_server(SERVER) == self._server(hosts):
                self._configured_hosts = hosts
                return False
            await self._write(hosts)
            return True

    async def close(self) -> None:
        """Close the client. Caddy keeps the server."""
        await self._admin.close()

    async def _name_hosts(self) -> None:
        """Write the hosts if they have changed. Changes that are made during a write are written together
        afterwards."""
        async with self._write_lock:
            hosts = self._desired_hosts()
            if hosts != self._configured_hosts:
                await self._write(hosts)

    def _desired_hosts(self) -> frozenset[str]:
        return frozenset(host for hosts in self._hosts.values() for host in hosts)

    async def _write(self, hosts: frozenset[str]) -> None:
        try:
            try:
                await self._admin.write_server(SERVER, self._server(hosts))
            except ConfigurationRefused as refusal:
                if not self._keeps_streams or STREAM_CLOSE_DELAY not in str(refusal):
                    raise
                self._keeps_streams = False
                await self._admin.write_server(SERVER, self._server(hosts))
        except ConfigurationRefused as refusal:
            raise TrafficUnavailable(self._explain(str(refusal))) from None
        self._configured_hosts = hosts

    def _server(self, hosts: frozenset[str]) -> dict[str, object]:
        return build_server(
            hosts, listen=self._listen, proxy_target=self._proxy_target, keeps_streams=self._keeps_streams
        )

    def _explain(self, error: str) -> str:
        if "already in use" in error:
            # In addition to 443, Caddy listens on 80 for redirects.
            address = ":80" if "listening on :80:" in error else self._listen
            return (
                f"Caddy cannot listen on {address}: another program does. End it, or choose another address "
                f"for applications. ({error})"
            )
        if "listener address repeated" in error or "already claimed" in error:
            return (
                f"Another server in Caddy's configuration listens on {self._listen} already. Take it out, or choose "
                f"another address for applications. ({error})"
            )
        if "permission denied" in error:
            return (
                f"Caddy may not listen on {self._listen}. Give it CAP_NET_BIND_SERVICE, or choose a port from 1024 "
                f"on. ({error})"
            )
        return f"Caddy has refused its new configuration, and keeps the current one: {error}"


def build_server(
    hosts: Iterable[str], *, listen: str, proxy_target: Target, keeps_streams: bool
) -> dict[str, Any]:
    """Return the value of `apps.http.servers.pharos_apps`, with certificates if it listens on 443.

    `proxy_target`: the address of the embedded proxy. `keeps_streams`: True if this Caddy supports `stream_close_delay`
    (2.7).
    """
    proxy: dict[str, Any] = {
        "handler": "reverse_proxy",
        "upstreams": [{"dial": _dial(proxy_target)}],
        "flush_interval": _FLUSH_NANOSECONDS,
        "transport": {
            "protocol": "http",
            "keep_alive": {"idle_timeout": _IDLE_SECONDS * _SECOND},
            "compression": False,
        },
    }
    if keeps_streams:
        proxy[STREAM_CLOSE_DELAY] = _STREAM_CLOSE_SECONDS * _SECOND
    unclaimed = {"handler": "headers", "request": {"delete": _CLAIMED}}
    return {
        "listen": [listen],
        "automatic_https": {"disable": listen.rpartition(":")[2] != str(_HTTPS_PORT)},
        # The first route only lists the hosts. The proxy handles all requests, also for other hosts.
        "routes": [{"match": [{"host": sorted(hosts)}]}, {"handle": [unclaimed, proxy]}],
    }


def _dial(target: Target) -> str:
    return f"[{target.host}]:{target.port}" if ":" in target.host else f"{target.host}:{target.port}"
