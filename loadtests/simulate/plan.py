"""Computes the edges, partitions, consumers and cores for a number of events a second, from the measured costs."""

import math
from dataclasses import dataclass

from loadtests.simulate.consumer_model import ConsumerForecast, ConsumerLoad, forecast_consumers
from loadtests.simulate.costs import Costs, EdgeCosts
from loadtests.simulate.edge_model import EdgeForecast, EdgeLoad, simulate_edge

TARGET = 0.6
"""Maximum share of its core that an edge or a consumer uses: the rest is for peaks and for a failed process."""
FEWEST_PARTITIONS = 12
"""The default of PHAROS_KAFKA_PARTITIONS."""
_REQUESTS = 4000
_HALVINGS = 12
_DOUBLINGS = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """The processes for the load. Edges and consumers have one core each."""

    events_per_second: float
    batch_events: int
    edges: int
    edge: EdgeForecast
    """Of each edge."""
    partitions: int
    consumers: int
    stored: ConsumerForecast
    broker_cores: float
    """Cores of all brokers, for one copy of each record."""
    log_mb_per_second: float
    """Compressed MB/s (10^6 bytes) that producers send; each copy and each reader adds the same amount."""


def make_plan(costs: Costs, events_per_second: float, batch_events: int, chunk_seconds: float = 0.5) -> Plan:
    """Return the fewest processes that stay at `TARGET`. Senders are independent of each other."""
    requests = events_per_second / batch_events
    edges = max(1, math.ceil(requests / highest_rate(costs.edge, batch_events)))
    # Simulate all of its requests, because a few do not show the slowest response times.
    load = EdgeLoad(requests / edges, batch_events, are_random=True)
    work, stored = _plan_consumers(costs, events_per_second, batch_events, chunk_seconds)
    return Plan(
        events_per_second,
        batch_events,
        edges,
        simulate_edge(costs.edge, load),
        work.partitions,
        work.consumers,
        stored,
        1e-6 * requests * (costs.broker.request_us + batch_events * costs.broker.event_us),
        1e-6 * events_per_second * costs.broker.event_bytes,
    )


def _plan_consumers(
    costs: Costs, events_per_second: float, batch_events: int, chunk_seconds: float
) -> tuple[ConsumerLoad, ConsumerForecast]:
    """Return the fewest consumers that keep up, with as many partitions for each."""
    event_us = costs.consumer.event_us + costs.consumer.record_us / batch_events
    consumers = max(1, math.ceil(1e-6 * events_per_second * event_us / TARGET))
    while True:
        partitions = consumers * math.ceil(FEWEST_PARTITIONS / consumers)
        for _ in range(_DOUBLINGS):
            work = ConsumerLoad(
                events_per_second, batch_events, partitions, consumers, chunk_seconds=chunk_seconds
            )
            stored = forecast_consumers(costs.consumer, costs.insert, work)
            if math.isfinite(stored.longest_lag_s):
                return work, stored
            partitions *= 2
        # Inserts are slow: more partitions do not help, because the consumers' slots are full.
        consumers += math.ceil(consumers / 10)


def highest_rate(costs: EdgeCosts, batch_events: int) -> float:
    """Return the requests a second with which an edge uses `TARGET` of its core."""
    lowest, highest = 0.0, 1e6 / (costs.request_us + batch_events * costs.event_us)
    for _ in range(_HALVINGS):
        middle = (lowest + highest) / 2
        load = EdgeLoad(middle, batch_events, are_random=True, requests=_REQUESTS)
        if simulate_edge(costs, load).utilisation > TARGET:
            highest = middle
        else:
            lowest = middle
    return lowest
