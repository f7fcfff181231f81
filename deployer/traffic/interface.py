"""The interface between the deployer and its traffic adapters: the embedded proxy, or a Caddy in front of it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

_POLL_SECONDS = 0.1


class Target(NamedTuple):
    """The address at which an instance listens for HTTP/1.1."""

    port: int
    host: str = "127.0.0.1"
    """An IP address, or a name that the traffic adapter can resolve."""


@dataclass(frozen=True, slots=True)
class Route:
    """The hosts and targets of one environment."""

    hosts: tuple[str, ...]
    """The hosts in lower case and without a port, such as `production.shop.localhost`. If two routes have a host,
    requests go to the route that was set last."""
    targets: tuple[Target, ...]
    """The healthy instances, possibly none."""
    is_awaited: bool
    """For a route without targets. True if targets will follow: requests are held until then. False: requests get
    503."""
    wakes: bool = False
    """For a route without targets. True if the environment is asleep: the first request wakes it, and all requests are
    held."""
    draining: tuple[Target, ...] = ()
    """Targets that receive no new requests, but whose requests in flight are counted."""


class TrafficUnavailable(Exception):
    """The traffic adapter could not apply the routes, and keeps the previous ones. The message says what to do."""


class Traffic(Protocol):
    """Routes requests. Routes are not stored: the deployer sets all of them at its start."""

    async def set_routes(self, routes: Mapping[int, Route]) -> None:
        """Replace all routes, by environment ID. The deployer calls this method first, with the routes of all
        environments."""

    async def set_route(self, environment_id: int, route: Route) -> None:
        """Set one route. After the return, no new request goes to a target that is not in `route.targets`."""

    async def remove_route(self, environment_id: int) -> None:
        """Remove the route. Requests for the environment's hosts then get 404."""

    async def count_in_flight(self, environment_id: int, target: Target) -> int:
        """Return the number of requests, WebSockets and streams in flight at this target."""

    async def end_streams(self, environment_id: int, target: Target) -> None:
        """End the WebSockets (1001, going away) and the event streams of a target that is about to be stopped. Return
        when they have ended, or after a timeout."""

    async def close(self) -> None:
        """End the requests that this process handles. An external Caddy keeps its routes."""


async def drain(traffic: Traffic, environment_id: int, targets: Sequence[Target], seconds: float) -> bool:
    """Wait until no target has a request in flight, and return True. After `seconds`, end the remaining WebSockets and
    event streams, and return False.

    The current route must list the targets in `draining`, not in its `targets`.
    """
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + seconds
    waiting = list(targets)
    while True:
        # An idle target stays idle, since it gets no new requests.
        waiting = [target for target in waiting if await traffic.count_in_flight(environment_id, target)]
        left = ends_at - loop.time()
        if not waiting:
            return True
        if left <= 0:
            await asyncio.gather(*(traffic.end_streams(environment_id, target) for target in waiting))
            return False
        await asyncio.sleep(min(left, _POLL_SECONDS))
