"""Carries traffic with a Caddy that runs beside Pharos: keeps one server in its configuration."""

import asyncio
from collections.abc import Mapping

from deployer.traffic.caddy_admin import CaddyAdmin, ConfigurationRefused
from deployer.traffic.caddy_configuration import SERVER, STREAM_CLOSE_DELAY, build_server
from deployer.traffic.interface import Route, Target, Traffic, TrafficUnavailable


class CaddyTraffic:
    """A `Traffic`. `set_routes`, `set_route`, `remove_route` and `ensure` raise `TrafficUnavailable`.

    `listen`: Caddy's form of an address, `127.0.0.1:8080` or `:443`. `waiting` is where `behind` listens, a
    `StreamingProxy` that trusts Caddy and carries every request. Caddy is told the hosts alone: each change of its
    configuration has it end connections at rest, so it is told nothing where they stay what they are.
    """

    def __init__(self, admin_url: str, listen: str, waiting: Target, behind: Traffic) -> None:
        self._admin = CaddyAdmin(admin_url)
        self._listen = listen
        self._waiting = waiting
        self._behind = behind
        self._hosts: dict[int, tuple[str, ...]] = {}
        self._named: frozenset[str] | None = None
        """What Caddy has been told; None: nothing yet."""
        self._keeps_streams = True
        self._writing = asyncio.Lock()

    async def set_routes(self, routes: Mapping[int, Route]) -> None:
        """See `Traffic`."""
        await self._behind.set_routes(routes)
        self._hosts = {number: route.hosts for number, route in routes.items()}
        await self._name_hosts()

    async def set_route(self, environment_id: int, route: Route) -> None:
        """See `Traffic`. Where it raises, the route is in force, but Caddy does not name its hosts before the next
        change or `ensure`."""
        await self._behind.set_route(environment_id, route)
        before = self._hosts.get(environment_id)
        self._hosts[environment_id] = route.hosts
        if before != route.hosts or not (self._named or frozenset()).issuperset(route.hosts):
            await self._name_hosts()

    async def remove_route(self, environment_id: int) -> None:
        """See `Traffic`."""
        await self._behind.remove_route(environment_id)
        if self._hosts.pop(environment_id, None) is not None:
            await self._name_hosts()

    async def in_work(self, environment_id: int, target: Target) -> int:
        """See `Traffic`."""
        return await self._behind.in_work(environment_id, target)

    async def end_streams(self, environment_id: int, target: Target) -> None:
        """See `Traffic`."""
        await self._behind.end_streams(environment_id, target)

    async def ensure(self) -> bool:
        """Look whether Caddy still has the server, and write it again if not: it was started anew, or somebody has
        loaded another configuration. True: it had to be written."""
        async with self._writing:
            hosts = self._wanted()
            if await self._admin.read_server(SERVER) == self._server(hosts):
                self._named = hosts
                return False
            await self._write(hosts)
            return True

    async def close(self) -> None:
        """Caddy goes on with the server it has."""
        await self._admin.close()

    async def _name_hosts(self) -> None:
        """Of changes that come while one is being written, the first one writes for all."""
        async with self._writing:
            hosts = self._wanted()
            if hosts != self._named:
                await self._write(hosts)

    def _wanted(self) -> frozenset[str]:
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
        self._named = hosts

    def _server(self, hosts: frozenset[str]) -> dict[str, object]:
        return build_server(
            hosts, listen=self._listen, waiting=self._waiting, keeps_streams=self._keeps_streams
        )

    def _explain(self, told: str) -> str:
        if "already in use" in told:
            # Beside 443 it opens 80, to redirect from.
            address = ":80" if "listening on :80:" in told else self._listen
            return (
                f"Caddy cannot listen on {address}: another program does. End it, or choose another address "
                f"for applications. ({told})"
            )
        if "listener address repeated" in told or "already claimed" in told:
            return (
                f"Another server in Caddy's configuration listens on {self._listen} already. Take it out, or choose "
                f"another address for applications. ({told})"
            )
        if "permission denied" in told:
            return (
                f"Caddy may not listen on {self._listen}. Give it CAP_NET_BIND_SERVICE, or choose a port from 1024 "
                f"on. ({told})"
            )
        return f"Caddy does not take its configuration, and goes on with the one it has: {told}"
