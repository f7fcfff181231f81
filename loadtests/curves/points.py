"""Defines the measured points of the curves, and reads and writes the file that keeps them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec
import orjson


@dataclass(frozen=True, slots=True)
class Point:
    """A measured value `y` for the size `x`, on one line of a curve."""

    curve: str
    """The name of the curve in `CURVES`."""
    line: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Curve:
    """What a curve shows on its axes, with the units."""

    title: str
    x: str
    y: str


CURVES: Mapping[str, Curve] = {
    "edge-batch": Curve("Edge: size of batches", "events a request", "CPU µs an event"),
    "edge-keys": Curve("Edge: keys and accounts", "keys", "CPU µs a request of one event"),
    "edge-partitions": Curve("Edge: partitions", "partitions of the topic", "CPU µs a request"),
    "edge-rates": Curve("Edge: rate of requests", "requests a second", "CPU µs a request"),
    "edge-latency": Curve("Edge: time to the answer", "requests a second", "ms"),
    "edge-full": Curve("Edge: full speed", "events a request", "requests a second"),
    "broker-batch": Curve("Kafka: one broker", "events a request", "CPU µs a request"),
    "redis-keys": Curve("Redis: keys and leases", "keys", "CPU µs of Redis a request"),
    "consumer-partitions": Curve("Consumer: partitions", "partitions of the topic", "CPU µs an event"),
    "consumer-batch": Curve("Consumer: size of batches", "events a record", "CPU µs an event"),
    "insert-rows": Curve("ClickHouse: size of inserts", "rows an insert, at most", "CPU µs a row"),
    "insert-time": Curve("ClickHouse: time of an insert", "rows an insert, at most", "ms"),
    "view-store": Curve("Page views: cost of storing one", "page views in the store", "CPU µs a page view"),
    "view-report": Curve("Page views: report of one site", "page views in the store", "CPU ms"),
    "view-visits": Curve("Page views: visits of the last 2 h", "page views in the store", "CPU ms"),
    "view-check": Curve("Page views: check of a site's rollups", "page views in the store", "CPU ms"),
    "receipt-look-up": Curve("Receipts: look-up of a chunk", "receipts in the store", "CPU ms"),
    "heartbeat-ping": Curve("Heartbeats: cost of a ping", "heartbeats", "CPU µs a ping"),
    "heartbeat-scan": Curve("Heartbeats: the scan", "heartbeats", "CPU ms a second"),
    "heartbeat-due": Curve("Heartbeats: all due at once", "heartbeats", "CPU µs a heartbeat"),
}
"""All curves, by name."""


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a run. `parts`: the points of each measured part, by the name of the part."""

    date: str
    """The day of the measurement, as YYYY-MM-DD."""
    machine: Mapping[str, str]
    quick: bool
    parts: Mapping[str, Sequence[Point]]

    def values(self, curve: str, line: str) -> dict[float, float]:
        """Return the points of a line as y by x, sorted by x. Empty if the line was not measured."""
        found = [p for points in self.parts.values() for p in points if (p.curve, p.line) == (curve, line)]
        return {point.x: point.y for point in sorted(found, key=lambda point: point.x)}

    def lines(self, curve: str) -> list[str]:
        """Return the names of the lines of a curve, in the order in which they were measured."""
        return list(
            dict.fromkeys(p.line for points in self.parts.values() for p in points if p.curve == curve)
        )


def encode_results(results: Results) -> bytes:
    """Return the results as JSON."""
    return orjson.dumps(asdict(results), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def read_results(file: Path) -> Results:
    """Read the result of `encode_results`. Raises `OSError` and `msgspec.DecodeError`."""
    return msgspec.json.decode(file.read_bytes(), type=Results)


def keep_other_parts(new: Results, file: Path) -> Results:
    """Return the new results. Parts that were not measured now are taken over from the existing file."""
    if not file.exists():
        return new
    old = read_results(file)
    return Results(new.date, new.machine, new.quick or old.quick, {**old.parts, **new.parts})
