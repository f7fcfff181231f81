"""What the deployer asks of whatever carries the traffic: the embedded proxy, or a Caddy in front of everything."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

_POLL_SECONDS = 0.1


class Target(NamedTuple):
    """Where an instance listens for HTTP/1.1."""

    port: int
    host: str = "127.0.0.1"
    """An IP address, or a name that the carrier of the traffic can look up."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where the requests for one environment go from now on."""

    hosts: tuple[str, ...]
    """In lower case, without a port: `production.shop.localhost`. A host belongs to the route that was set last."""
    targets: tuple[Target, ...]
    """The healthy instances; empty: there are none now."""
    is_awaited: bool
    """Without targets: whether some are about to come, so that requests are held for them; else they get 503."""
    wakes: bool = False
    """Without targets: the environment is asleep. The first request has it woken, all are held for it."""
    draining: tuple[Target, ...] = ()
    """Get no new request; named so that what they still answer can be counted."""


class TrafficUnavailable(Exception):
    """The carrier of the traffic did not take the routes; what it carried before it goes on carrying. The message says
    what to do."""


class Traffic(Protocol):
    """Carries requests. Routes are not stored: whoever starts sets them all again."""

    async def set_routes(self, routes: Mapping[int, Route]) -> None:
        """All routes by environment ID, in place of those that were set: what whoever starts does first, at once, so
        that no environment is missing meanwhile."""

    async def set_route(self, environment_id: int, route: Route) -> None:
        """Once it returns, no new request goes to a target that is not in `route.targets`."""

    async def remove_route(self, environment_id: int) -> None:
        """From now on nobody answers at the environment's hosts (404)."""

    async def count_in_flight(self, environment_id: int, target: Target) -> int:
        """How many requests (and open WebSockets and streams) this target still answers."""

    async def end_streams(self, environment_id: int, target: Target) -> None:
        """End the WebSockets (1001, going away) and the event streams of a target that is about to be stopped; returns
        when they have ended, or have had the time for it."""

    async def close(self) -> None:
        """End what this process carries. A carrier that is a process of its own goes on with the routes it has."""


async def drain(traffic: Traffic, environment_id: int, targets: Sequence[Target], seconds: float) -> bool:
    """True as soon as none of `targets` has anything in work; False when that took longer than `seconds`.

    Then their WebSockets and event streams are ended.

    Before, a route must have been set that names them among `draining`, not among its targets.
    """
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + seconds
    waiting = list(targets)
    while True:
        # One that was at rest stays so: it gets no new request.
        waiting = [target for target in waiting if await traffic.count_in_flight(environment_id, target)]
        left = ends_at - loop.time()
        if not waiting:
            return True
        if left <= 0:
            await asyncio.gather(*(traffic.end_streams(environment_id, target) for target in waiting))
            return False
        await asyncio.sleep(min(left, _POLL_SECONDS))
