"""A discrete-event model of one edge on Kafka: an event loop that serves requests in turns, and one broker.

A turn handles everything that is ready at its start: requests, a response of the broker, a due batch. So a busy edge
needs fewer turns per request. A request gets its response when the broker has acknowledged the produce request that
contains its record. As in `storage_backends.event_log.kafka_producer`, there is only one produce request at a time,
and a batch waits for more records until its linger time is over. The same arguments always give the same result.
"""

import heapq
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loadtests.simulate.costs import EdgeCosts

_TICK_S = 0.00113
"""The load generator `loadtests.bench.load` sends requests at intervals of this length: it sleeps for 1 ms, and then
sends."""
_TIMER_S = 0.001
"""How long before the end of its linger time a batch may be sent, as in `kafka_producer`."""
_CLIENT_S = 50e-6
"""The time from a response to the next request on the same connection, at full speed."""


@dataclass(frozen=True, slots=True)
class EdgeLoad:
    """The requests to one edge: either a rate, or a number of connections that send at full speed."""

    per_second: float | None
    events: int
    """Number of events in each request."""
    connections: int = 64
    are_random: bool = False
    """True if senders are independent (exponential intervals). False for even intervals, as the load generator
    sends."""
    linger_ms: float = 5.0
    requests: int = 20_000
    """Number of requests to simulate."""


@dataclass(frozen=True, slots=True)
class EdgeForecast:
    """The result of the model. Times are from when a request is due to its response."""

    per_second: float
    utilisation: float
    """The share of one core that the edge uses."""
    cpu_us: float
    """CPU time for each request in microseconds."""
    mean_wait_ms: float
    """The time until the event loop begins to process a request."""
    p50_ms: float
    p99_ms: float
    turns: float
    """Number of turns of the event loop for each request."""
    produces: float
    """Number of produce requests divided by number of requests."""


def simulate_edge(costs: EdgeCosts, load: EdgeLoad, seed: int = 1) -> EdgeForecast:
    """Simulate the load, starting with an idle edge. If the load exceeds the capacity of the edge, the utilisation is
    1."""
    chance = random.Random(seed)
    edge = _Edge(costs, load, chance)
    edge.run()
    served = len(edge.latencies)
    latencies = sorted(edge.latencies)
    return EdgeForecast(
        per_second=served / edge.now,
        utilisation=edge.busy / edge.now,
        cpu_us=1e6 * edge.busy / served,
        mean_wait_ms=1e3 * edge.waited / edge.begun,
        p50_ms=1e3 * _percentile(latencies, 0.5),
        p99_ms=1e3 * _percentile(latencies, 0.99),
        turns=edge.turns / served,
        produces=edge.produces / served,
    )


class _Edge:
    """The state of a simulation. Times are seconds."""

    def __init__(self, costs: EdgeCosts, load: EdgeLoad, chance: random.Random) -> None:
        self.now = self.busy = self.waited = 0.0
        self.turns = self.produces = self.begun = 0
        self.latencies: list[float] = []
        self._load = load
        self._chance = chance
        self._request_s = 1e-6 * (costs.request_us + load.events * costs.event_us)
        self._turn_s = 1e-6 * costs.turn_us
        self._produce_s = 1e-6 * costs.produce_us
        self._linger_s = 1e-3 * load.linger_ms
        self._broker = _broker_times(costs, chance)
        # Pairs: when the request reaches the edge, and when it was due.
        self._arrivals: list[tuple[float, float]] = []
        self._next_due = 0.0
        # When requests were due: those in the open batches, and those in the produce request in flight.
        self._open: list[float] = []
        self._opened_at = math.inf
        self._flying: Sequence[float] = ()
        self._acknowledged_at = math.inf

    def run(self) -> None:
        """Run the simulation until all requests have a response."""
        if self._load.per_second is None:
            self._arrivals = [(0.0, 0.0)] * self._load.connections
        else:
            self._add_arrival(self._load.per_second)
        while len(self.latencies) < self._load.requests:
            self._run_turn()

    def _run_turn(self) -> None:
        due_at = math.inf if self._flying else self._opened_at + self._linger_s
        arrives_at = self._arrivals[0][0] if self._arrivals else math.inf
        self.now = max(self.now, min(due_at, arrives_at, self._acknowledged_at))
        begun_at, end = self.now, self.now + self._turn_s
        self.turns += 1
        if self._acknowledged_at <= begun_at:
            self._answer(end)
        while self._arrivals and self._arrivals[0][0] <= begun_at:
            arrived_at, due = heapq.heappop(self._arrivals)
            if self._load.per_second is not None:
                self._add_arrival(self._load.per_second)
            self.waited += end - arrived_at
            self.begun += 1
            end += self._request_s
            self._opened_at = min(self._opened_at, end)
            self._open.append(due)
        if not self._flying and self._open and self._opened_at + self._linger_s - end < _TIMER_S:
            end += self._produce_s
            self.produces += 1
            self._flying, self._open, self._opened_at = self._open, [], math.inf
            self._acknowledged_at = end + self._broker()
        self.busy += end - begun_at
        self.now = end

    def _answer(self, at: float) -> None:
        """Complete the requests in the produce request that was acknowledged."""
        for due in self._flying:
            self.latencies.append(at - due)
            if self._load.per_second is None:
                heapq.heappush(self._arrivals, (at + _CLIENT_S, at + _CLIENT_S))
        self._flying, self._acknowledged_at = (), math.inf

    def _add_arrival(self, per_second: float) -> None:
        due = self._next_due
        if self._load.are_random:
            self._next_due += self._chance.expovariate(per_second)
            heapq.heappush(self._arrivals, (due, due))
        else:
            self._next_due += 1 / per_second
            heapq.heappush(self._arrivals, (math.ceil(due / _TICK_S) * _TICK_S, due))


def _broker_times(costs: EdgeCosts, chance: random.Random) -> Callable[[], float]:
    """Return a function that draws random seconds. Their distribution is log-normal, with the measured median and 99th
    percentile."""
    if costs.broker_p50_ms <= 0:
        return lambda: 0.0
    middle = math.log(1e-3 * costs.broker_p50_ms)
    # 2.326: standard deviations between the median and the 99th percentile of a normal distribution.
    spread = max(0.0, math.log(costs.broker_p99_ms / costs.broker_p50_ms)) / 2.326
    return lambda: chance.lognormvariate(middle, spread)


def _percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def mean_wait_of_md1(utilisation: float, service_ms: float) -> float:
    """Return the mean waiting time in a queue with random arrivals and a constant service time, by the formula of
    Pollaczek and Khinchine."""
    return utilisation * service_ms / (2 * (1 - utilisation))
