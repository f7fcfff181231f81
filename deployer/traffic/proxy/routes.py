"""Maps hosts to environments, and counts the requests in flight of each target."""

import math

from deployer.traffic.interface import Route, Target
from deployer.traffic.proxy.held_requests import HeldRequests


class RoutedEnvironment:
    """One environment's current route, shared by its requests in flight."""

    __slots__ = ("environment_id", "held", "route", "woken_until")

    def __init__(self, environment_id: int, route: Route) -> None:
        self.environment_id = environment_id
        self.route: Route | None = route
        """The current route. None if it was removed."""
        self.woken_until = -math.inf
        """The deadline of the last request that woke the environment, in the loop's time."""
        self.held = HeldRequests()

    def change(self, route: Route | None) -> None:
        """Activate the route, and wake the requests that wait for a route."""
        self.route = route
        self.woken_until = -math.inf
        self.held.wake_all()


class RouteTable:
    """All routes. A change is a single assignment: a request sees the table before or after the change."""

    def __init__(self) -> None:
        self._routed: dict[int, RoutedEnvironment] = {}
        self._by_host: dict[str, RoutedEnvironment] = {}
        self._in_flight: dict[tuple[int, Target], int] = {}

    def find(self, host: str) -> RoutedEnvironment | None:
        """Return the environment of this host, which is in lower case and without a port."""
        return self._by_host.get(host)

    def environment_ids(self) -> frozenset[int]:
        """Return the environments that have a route."""
        return frozenset(self._routed)

    def set(self, environment_id: int, route: Route) -> None:
        """Activate the route, and wake the requests that wait for a target."""
        routed = self._routed.pop(environment_id, None)
        if routed is None:
            routed = RoutedEnvironment(environment_id, route)
        # Move the route to the end: if two routes have the same host, the last one gets its requests.
        self._routed[environment_id] = routed
        self._by_host = self._hosts_with(routed, route)
        routed.change(route)

    def remove(self, environment_id: int) -> None:
        """Remove the route and its hosts."""
        routed = self._routed.pop(environment_id, None)
        if routed is not None:
            self._by_host = {host: other for host, other in self._by_host.items() if other is not routed}
            routed.change(None)

    def _hosts_with(self, routed: RoutedEnvironment, route: Route) -> dict[str, RoutedEnvironment]:
        kept = {host: other for host, other in self._by_host.items() if other is not routed}
        return kept | dict.fromkeys(route.hosts, routed)

    def count_in_flight(self, environment_id: int, target: Target) -> int:
        """Return the number of the target's requests in flight. A request counts from before the connect until its
        response has ended."""
        return self._in_flight.get((environment_id, target), 0)

    def take(self, environment_id: int, target: Target) -> None:
        """Count one more request for this target."""
        key = (environment_id, target)
        self._in_flight[key] = self._in_flight.get(key, 0) + 1

    def release(self, environment_id: int, target: Target) -> None:
        """Count one request less for this target."""
        key = (environment_id, target)
        left = self._in_flight[key] - 1
        if left:
            self._in_flight[key] = left
        else:
            del self._in_flight[key]
