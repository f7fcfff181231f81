"""The number of connection attempts for requests held for a target that refuses."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from deployer.traffic.interface import Route, Target
from deployer.traffic.proxy.connector import Connector, TargetConnection
from deployer.traffic.proxy.refusals import Unavailable
from deployer.traffic.proxy.routes import RoutedEnvironment, RouteTable
from deployer.traffic.proxy.upstream import Upstream, UpstreamRefused
from tests.deployer.traffic.applications import until

HOST = "a.localhost"
ROUTE = Route((HOST,), (Target(1),), is_awaited=True)
HELD = 200
# Retries are timed, so a busy machine may make a few more than the test waits for.
FEW = 20


class RefusingTarget:
    """A target that accepts a given number of connections and refuses all others."""

    def __init__(self) -> None:
        self.tried = 0
        self.takes = 0

    async def open(self, _target: Target, _listeners: object) -> Upstream:
        self.tried += 1
        # The error of a connection that this machine refuses.
        await asyncio.sleep(0)
        if not self.takes:
            raise UpstreamRefused
        self.takes -= 1
        return Upstream(asyncio.get_running_loop())


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> RefusingTarget:
    target = RefusingTarget()
    monkeypatch.setattr("deployer.traffic.proxy.connector.open_upstream", target.open)
    return target


class Requests:
    """The requests in flight to the environment."""

    def __init__(self) -> None:
        self.table = RouteTable()
        self.table.set(1, ROUTE)
        routed = self.table.find(HOST)
        assert routed is not None
        self.routed: RoutedEnvironment = routed
        self._holding = Connector(self.table, lambda _: None, 30.0, held_at_once=HELD)
        self._tasks: list[asyncio.Task[TargetConnection]] = []

    def begin(self, seconds: float = 30.0) -> asyncio.Task[TargetConnection]:
        ends_at = asyncio.get_running_loop().time() + seconds
        self._tasks.append(asyncio.create_task(self._holding.connect(self.routed, ends_at)))
        return self._tasks[-1]

    async def pause(self, count: int) -> None:
        self.begin()
        await until(lambda: len(self.routed.held) == 1)
        for _ in range(count - 1):
            self.begin()
        await until(lambda: len(self.routed.held) == count)

    @property
    def connected(self) -> int:
        return sum(task.done() for task in self._tasks)

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture
async def requests() -> AsyncIterator[Requests]:
    requests = Requests()
    yield requests
    await requests.end()


async def test_all_held_requests_share_one_retry_at_a_time(
    target: RefusingTarget, requests: Requests
) -> None:
    await requests.pause(HELD)
    await until(lambda: target.tried >= 3)
    assert target.tried < FEW
    await until(lambda: len(requests.routed.held) == HELD)


async def test_a_recovered_target_gets_all_held_requests(target: RefusingTarget, requests: Requests) -> None:
    await requests.pause(HELD)
    target.takes = HELD
    await until(lambda: requests.connected == HELD)
    assert target.tried < HELD + FEW and not requests.routed.held


async def test_each_accepted_connection_wakes_two_more_requests(
    target: RefusingTarget, requests: Requests
) -> None:
    """The other requests do not try a target that accepts one connection and refuses the next."""
    await requests.pause(HELD)
    target.takes = 3
    await until(lambda: requests.connected == 3 and len(requests.routed.held) == HELD - 3)
    assert 3 <= target.tried < FEW


async def test_held_requests_continue_after_the_retrying_caller_disconnected(
    target: RefusingTarget, requests: Requests
) -> None:
    await requests.pause(2)
    first, second = requests._tasks
    first.cancel()
    target.takes = 1
    await until(second.done)
    assert (await second).target == Target(1)


async def test_a_changed_route_wakes_all_held_requests(target: RefusingTarget, requests: Requests) -> None:
    await requests.pause(HELD)
    requests.table.set(1, Route((HOST,), (), is_awaited=False))
    await until(lambda: requests.connected == HELD)
    for task in requests._tasks:
        with pytest.raises(Unavailable):
            await task


async def test_a_held_request_is_refused_after_its_time_or_if_too_many_wait(
    target: RefusingTarget, requests: Requests
) -> None:
    with pytest.raises(Unavailable, match="within"):
        await requests.begin(seconds=0.0)
    await requests.pause(HELD)
    with pytest.raises(Unavailable, match="already wait for the application"):
        await requests.begin()
