"""A model of the consumers of one topic and of ClickHouse, in closed form.

Each partition has a worker. The worker takes a chunk (at most `chunk_rows` rows, or the records of `chunk_seconds`),
inserts it and commits it, before it takes the next one. A consumer process works on at most four chunks at once
(`consumers.loop`), with one core. So the time from one chunk of a partition to the next (a cycle) is the longest of
three times: that of the chunk itself, that of waiting for one of the four places, and that of the core.
"""

import math
from dataclasses import dataclass

from loadtests.simulate.costs import ConsumerCosts, InsertCosts

_SLOTS = 4


@dataclass(frozen=True, slots=True)
class ConsumerLoad:
    """The number of events per second of a topic. The events are spread evenly over the partitions, and the partitions
    over the consumers."""

    per_second: float
    batch_events: int
    """Number of events in a record."""
    partitions: int
    consumers: int
    chunk_rows: int = 50_000
    chunk_seconds: float = 0.5


@dataclass(frozen=True, slots=True)
class ConsumerForecast:
    """The result of the model. If the consumers cannot keep up, the lag is infinite."""

    utilisation: float
    """The share of one core that the consumer with the most partitions uses, if it keeps up."""
    rows_an_insert: float
    inserts_per_second: float
    """Number of inserts per second for all partitions. Each insert creates one new data part in each table."""
    store_cores: float
    """Number of cores that ClickHouse uses for inserts and merges."""
    mean_lag_s: float
    """Seconds from the log's acknowledgement of an event until the event is stored."""
    longest_lag_s: float


def forecast_consumers(consumer: ConsumerCosts, insert: InsertCosts, load: ConsumerLoad) -> ConsumerForecast:
    """Return the forecast for the consumers of this load."""
    partitions = math.ceil(load.partitions / load.consumers)
    rate = load.per_second / load.partitions
    event_s = 1e-6 * (consumer.event_us + consumer.record_us / load.batch_events)
    fixed_s, row_s = 1e-3 * insert.insert_ms, 1e-3 * insert.row_ms
    # A cycle takes `constant + slope * rows` seconds, for the pair of these numbers that gives the longest time.
    shared = max(1.0, partitions / _SLOTS)
    bounds = [
        (load.chunk_seconds + fixed_s, row_s),
        (shared * fixed_s, shared * row_s),
        (0.0, partitions * event_s),
    ]
    cycle, rows = _cycle(bounds, rate, load.chunk_rows)
    if math.isinf(cycle):
        longest = math.inf
        inserts = load.partitions / max(constant + slope * rows for constant, slope in bounds[1:])
    else:
        longest = cycle + fixed_s + row_s * rows
        inserts = load.partitions / cycle
    stored = inserts * rows
    return ConsumerForecast(
        utilisation=partitions * rate * event_s,
        rows_an_insert=rows,
        inserts_per_second=inserts,
        store_cores=1e-6 * (inserts * insert.cpu_us + stored * insert.row_cpu_us),
        mean_lag_s=longest - cycle / 2 if math.isfinite(longest) else math.inf,
        longest_lag_s=longest,
    )


def _cycle(bounds: list[tuple[float, float]], rate: float, chunk_rows: int) -> tuple[float, float]:
    """Return the seconds of a cycle and the number of rows of its chunk. The seconds are infinite if more rows arrive
    than can be stored."""
    # In a steady state, a chunk has the rows that arrived during a cycle: rows = rate * (constant + slope * rows).
    if all(slope * rate < 1 for _, slope in bounds):
        cycle = max(constant / (1 - slope * rate) for constant, slope in bounds)
        if rate * cycle <= chunk_rows:
            return cycle, rate * cycle
    # Chunks are full before their time is over, so no chunk waits for its time limit.
    cycle = max(constant + slope * chunk_rows for constant, slope in bounds[1:])
    if rate * cycle > chunk_rows:
        return math.inf, chunk_rows
    return chunk_rows / rate, chunk_rows
