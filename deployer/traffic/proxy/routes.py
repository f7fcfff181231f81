"""Which environment answers at a host, and how many requests each of its targets has in work."""

import math

from deployer.traffic.interface import Route, Target
from deployer.traffic.proxy.held_requests import HeldRequests


class RoutedEnvironment:
    """One environment's route, as the requests that are on their way see it."""

    __slots__ = ("environment_id", "held", "route", "woken_until")

    def __init__(self, environment_id: int, route: Route) -> None:
        self.environment_id = environment_id
        self.route: Route | None = route
        """None: the route was removed."""
        self.woken_until = -math.inf
        """Until when the request waits that last asked for the environment to be woken, by the loop's clock."""
        self.held = HeldRequests()

    def change(self, route: Route | None) -> None:
        """Activate the route, and wake the requests that wait for a route."""
        self.route = route
        self.woken_until = -math.inf
        self.held.wake_all()


class RouteTable:
    """All routes. A change is one assignment: a request sees the table before it or after it."""

    def __init__(self) -> None:
        self._routed: dict[int, RoutedEnvironment] = {}
        self._by_host: dict[str, RoutedEnvironment] = {}
        self._in_flight: dict[tuple[int, Target], int] = {}

    def find(self, host: str) -> RoutedEnvironment | None:
        """The environment that answers at this host, lower case and without a port."""
        return self._by_host.get(host)

    def environment_ids(self) -> frozenset[int]:
        """Those that have a route."""
        return frozenset(self._routed)

    def set(self, environment_id: int, route: Route) -> None:
        """Put it in force. Those who wait for a target go on."""
        routed = self._routed.pop(environment_id, None)
        if routed is None:
            routed = RoutedEnvironment(environment_id, route)
        # Behind all others: a host that two routes name is the last one's.
        self._routed[environment_id] = routed
        self._by_host = self._hosts_with(routed, route)
        routed.change(route)

    def remove(self, environment_id: int) -> None:
        """Nobody answers at its hosts any more."""
        routed = self._routed.pop(environment_id, None)
        if routed is not None:
            self._by_host = {host: other for host, other in self._by_host.items() if other is not routed}
            routed.change(None)

    def _hosts_with(self, routed: RoutedEnvironment, route: Route) -> dict[str, RoutedEnvironment]:
        kept = {host: other for host, other in self._by_host.items() if other is not routed}
        return kept | dict.fromkeys(route.hosts, routed)

    def count_in_flight(self, environment_id: int, target: Target) -> int:
        """Requests from before the connection is opened until the answer has ended."""
        return self._in_flight.get((environment_id, target), 0)

    def take(self, environment_id: int, target: Target) -> None:
        """One more request for this target."""
        key = (environment_id, target)
        self._in_flight[key] = self._in_flight.get(key, 0) + 1

    def release(self, environment_id: int, target: Target) -> None:
        """One of its requests has ended."""
        key = (environment_id, target)
        left = self._in_flight[key] - 1
        if left:
            self._in_flight[key] = left
        else:
            del self._in_flight[key]
