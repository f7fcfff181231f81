"""Computes from the measured costs how many edges, partitions, consumers and cores a number of events per second
needs."""

import math
from dataclasses import dataclass

from loadtests.simulate.consumer_model import ConsumerForecast, ConsumerLoad, forecast_consumers
from loadtests.simulate.costs import Costs, EdgeCosts
from loadtests.simulate.edge_model import EdgeForecast, EdgeLoad, simulate_edge

TARGET = 0.6
"""The largest share of its core that an edge or a consumer may use. The rest is for peaks, and for the load of a
failed process."""
FEWEST_PARTITIONS = 12
"""The default of the setting PHAROS_KAFKA_PARTITIONS."""
_REQUESTS = 4000
_HALVINGS = 12
_DOUBLINGS = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """The processes that a load needs. Each edge and each consumer has one core."""

    events_per_second: float
    batch_events: int
    edges: int
    edge: EdgeForecast
    """The figures of each edge."""
    partitions: int
    consumers: int
    stored: ConsumerForecast
    broker_cores: float
    """Number of cores of all brokers together, for one copy of each record."""
    log_mb_per_second: float
    """Compressed MB/s (10^6 bytes) that producers send. Each further copy and each reader adds the same amount."""


def make_plan(costs: Costs, events_per_second: float, batch_events: int, chunk_seconds: float = 0.5) -> Plan:
    """Return the smallest numbers of processes that stay below `TARGET`. The senders of the load are independent
    of each other."""
    requests = events_per_second / batch_events
    edges = max(1, math.ceil(requests / highest_rate(costs.edge, batch_events)))
    # Simulate all requests, because a few of them do not show the slowest response times.
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
    """Return the smallest number of consumers that keep up, with an equal number of partitions for each."""
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
        # Inserts are slow. More partitions do not help, because the consumers work on as many chunks as they can.
        consumers += math.ceil(consumers / 10)


def highest_rate(costs: EdgeCosts, batch_events: int) -> float:
    """Return the number of requests per second at which an edge uses `TARGET` of its core."""
    lowest, highest = 0.0, 1e6 / (costs.request_us + batch_events * costs.event_us)
    for _ in range(_HALVINGS):
        middle = (lowest + highest) / 2
        load = EdgeLoad(middle, batch_events, are_random=True, requests=_REQUESTS)
        if simulate_edge(costs, load).utilisation > TARGET:
            highest = middle
        else:
            lowest = middle
    return lowest
