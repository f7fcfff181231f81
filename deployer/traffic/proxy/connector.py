"""Connects a request to a target, and holds the request until a target accepts the connection."""

import asyncio
from collections.abc import Callable

from deployer.listeners.owners import ListenerOwners
from deployer.traffic.interface import Route, Target
from deployer.traffic.proxy.refusals import NotFound, Unavailable
from deployer.traffic.proxy.routes import RoutedEnvironment, RouteTable
from deployer.traffic.proxy.upstream import Upstream, UpstreamRefused, open_upstream

_RETRY_AFTER_SECONDS = 5


class TargetConnection:
    """A connection to a target, counted as a request in flight until `release`."""

    __slots__ = ("_table", "environment_id", "target", "upstream")

    def __init__(self, table: RouteTable, environment_id: int, target: Target, upstream: Upstream) -> None:
        self._table = table
        self.environment_id = environment_id
        self.target = target
        self.upstream = upstream

    def release(self) -> None:
        """Close the connection immediately."""
        self.upstream.abort()
        self._table.release(self.environment_id, self.target)


class Connector:
    """Opens connections for requests. `held_at_once`: the number of requests of one environment that may wait."""

    def __init__(
        self,
        table: RouteTable,
        on_request_asleep: Callable[[int], None],
        hold_seconds: float,
        held_at_once: int,
        listeners: ListenerOwners | None = None,
    ) -> None:
        self._table = table
        self._on_request_asleep = on_request_asleep
        self._hold_seconds = hold_seconds
        self._held_at_once = held_at_once
        self._listeners = listeners

    async def connect(
        self, routed: RoutedEnvironment, ends_at: float, avoided: Target | None = None
    ) -> TargetConnection:
        """Connect to the least busy target that accepts the connection. Try `avoided` last.

        Raises `Unavailable` if no target accepts before `ends_at` (in the loop's time) or if no target is expected,
        and `NotFound` if the route was removed.
        """
        refused = {avoided}
        # A new request does not try a target that refuses other requests: all held requests share one retry at a
        # time.
        may_try = not routed.held.is_retrying
        is_new = True
        while True:
            route = routed.route
            if route is None:
                raise NotFound("No environment answers at this host any more.")
            left = [target for target in route.targets if target not in refused] if may_try else []
            if left:
                target = self._least_busy(routed.environment_id, left) if len(left) > 1 else left[0]
                connection = await self._try_connect(routed, target)
                if connection is not None:
                    routed.held.wake_after_success()
                    return connection
                refused.add(target)
            else:
                await self._wait_for_change(routed, route, ends_at, is_new=is_new)
                refused.clear()
                may_try, is_new = True, False

    def _least_busy(self, environment_id: int, targets: list[Target]) -> Target:
        return min(targets, key=lambda target: self._table.count_in_flight(environment_id, target))

    async def _try_connect(self, routed: RoutedEnvironment, target: Target) -> TargetConnection | None:
        self._table.take(routed.environment_id, target)
        upstream = None
        try:
            upstream = await open_upstream(target, self._listeners)
            # The route may have changed while connecting. The request must then not be sent to the old target.
            if routed.route is not None and target in routed.route.targets:
                return TargetConnection(self._table, routed.environment_id, target, upstream)
        except UpstreamRefused:
            pass
        except BaseException:
            self._table.release(routed.environment_id, target)
            raise
        if upstream is not None:
            upstream.abort()
        self._table.release(routed.environment_id, target)
        return None

    async def _wait_for_change(
        self, routed: RoutedEnvironment, route: Route, ends_at: float, *, is_new: bool
    ) -> None:
        """Wait until the route changes, or until this request may retry a target that has refused."""
        now = asyncio.get_running_loop().time()
        if not (route.targets or route.wakes or route.is_awaited):
            raise Unavailable("The application is not running.", retry_after=_RETRY_AFTER_SECONDS)
        if is_new and len(routed.held) >= self._held_at_once:
            raise Unavailable(f"{len(routed.held):,} requests already wait for the application.")
        if route.wakes and not route.targets:
            self._wake(routed, now, ends_at)
        if not await routed.held.wait(ends_at - now, is_retried=bool(route.targets)):
            raise Unavailable(
                f"No instance of the application took the request within {self._hold_seconds:g} s.",
                retry_after=_RETRY_AFTER_SECONDS,
            )

    def _wake(self, routed: RoutedEnvironment, now: float, ends_at: float) -> None:
        # Wake the environment again only after the request that woke it last has given up.
        if now >= routed.woken_until:
            routed.woken_until = ends_at
            self._on_request_asleep(routed.environment_id)
