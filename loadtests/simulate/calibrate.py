"""Computes the model's costs from the points of `make curves`.

The costs of the edge come from requests at full speed and at 100 to 1,000 requests a second. How many turns of the
event loop and how many produce requests a request needs is computed by the model itself, so these numbers and the costs
are computed alternately.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy

from loadtests.bench.payloads import make_bodies
from loadtests.curves.points import Results
from loadtests.simulate.costs import BrokerCosts, ConsumerCosts, Costs, EdgeCosts, InsertCosts
from loadtests.simulate.edge_model import EdgeLoad, simulate_edge
from storage_backends.event_log.kafka_batch import RecordBatch

_LINE = "with the accelerator"
_ROUNDS = 10
_REQUESTS = 4000
_FIRST_GUESS = EdgeCosts(150.0, 3.0, 30.0, 100.0, broker_p50_ms=2.0, broker_p99_ms=4.0)
_SHORTEST_MS = 0.1
# A slow response of the broker delays several requests. So the percentile of the requests moves further than the
# percentile of the responses.
_STEP = 0.5
_COMPRESSED_RECORDS = 8
_BATCH_EVENTS = 100


def calibrate(results: Results) -> Costs:
    """Return the costs that follow from the points of the curves. Raises `ValueError` if a part of the curves was not
    measured."""
    return Costs(
        date=results.date,
        machine=results.machine,
        edge=_edge_costs(results),
        consumer=_consumer_costs(results),
        insert=_insert_costs(results),
        broker=_broker_costs(results),
    )


def fit(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Return one non-negative factor for each column of `rows`. Each row, multiplied by the factors and added up,
    approximates its value; the sum of the squared relative errors is the least possible. Raises `ValueError` without
    values."""
    if not values:
        raise ValueError("A curve that the costs need was not measured: run make curves without --only.")
    matrix = numpy.array(rows, dtype=float) / numpy.array(values, dtype=float)[:, None]
    used = list(range(matrix.shape[1]))
    while True:
        found, *_ = numpy.linalg.lstsq(matrix[:, used], numpy.ones(len(values)), rcond=None)
        if min(found) >= 0 or len(used) == 1:
            break
        # A negative factor means that this cost is too small to be measured, so it becomes 0.
        used.pop(int(numpy.argmin(found)))
    factors = [0.0] * matrix.shape[1]
    for column, factor in zip(used, found, strict=True):
        factors[column] = max(0.0, float(factor))
    return factors


def _edge_costs(results: Results) -> EdgeCosts:
    measured = [
        (EdgeLoad(None, int(events), requests=_REQUESTS), cost * events)
        for events, cost in results.values("edge-batch", _LINE).items()
    ]
    for events, line in ((1, "1 event a request"), (100, "100 events a request")):
        for rate, cost in results.values("edge-rates", line).items():
            measured.append((EdgeLoad(rate, events, requests=_REQUESTS), cost))
    middle = results.values("edge-latency", "1 event a request, p50")
    slowest = results.values("edge-latency", "1 event a request, p99")
    if not middle:
        raise ValueError("The time to the answer was not measured: run make curves without --only.")
    rate = min(middle)
    costs = _FIRST_GUESS
    for _ in range(_ROUNDS):
        # Choose the broker's times so that responses at the lowest rate take as long as measured.
        lowest = simulate_edge(costs, EdgeLoad(rate, 1, requests=_REQUESTS))
        p50_ms = max(_SHORTEST_MS, costs.broker_p50_ms + middle[rate] - lowest.p50_ms)
        p99_ms = max(p50_ms, costs.broker_p99_ms + _STEP * (slowest[rate] - lowest.p99_ms))
        costs = replace(costs, broker_p50_ms=p50_ms, broker_p99_ms=p99_ms)
        forecasts = [simulate_edge(costs, load) for load, _ in measured]
        rows = [
            (1.0, load.events, forecast.turns, forecast.produces)
            for (load, _), forecast in zip(measured, forecasts, strict=True)
        ]
        request, event, turn, produce = fit(rows, [cost for _, cost in measured])
        costs = replace(costs, request_us=request, event_us=event, turn_us=turn, produce_us=produce)
    return costs


def _consumer_costs(results: Results) -> ConsumerCosts:
    found = results.values("consumer-batch", "12 partitions")
    record, event = fit([(1 / events, 1.0) for events in found], list(found.values()))
    return ConsumerCosts(record, event)


def _insert_costs(results: Results) -> InsertCosts:
    took = results.values("insert-time", "plan to commit, p50")
    insert_ms, row_ms = fit([(1.0, rows) for rows in took], list(took.values()))
    used = results.values("insert-rows", "inserts and merges")
    insert_us, row_us = fit([(1 / rows, 1.0) for rows in used], list(used.values()))
    return InsertCosts(insert_ms, row_ms, insert_us, row_us)


def _broker_costs(results: Results) -> BrokerCosts:
    found = results.values("broker-batch", f"edge {_LINE}")
    request, event = fit([(1.0, events) for events in found], list(found.values()))
    return BrokerCosts(request, event, compressed_bytes_of_event())


def compressed_bytes_of_event() -> float:
    """Return how many bytes an event takes in Kafka's log, for batches of 100 events of the benchmark. One Kafka batch
    contains several of them."""
    batch = RecordBatch(2**30, 0)
    for body in make_bodies(_COMPRESSED_RECORDS, _BATCH_EVENTS):
        batch.append(b"", b"", body, 0)
    return len(batch.encode(0, 0, 0)) / _COMPRESSED_RECORDS / _BATCH_EVENTS
