"""Generates the metrics of the demo shop: gauges, counters and a histogram of each service, as OTLP data points."""

import math
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from demo.traffic.catalogue import SERVICES
from demo.traffic.otlp import texts
from demo.traffic.rhythm import Troubles, expected_rate

_BOUNDS = (5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0)
_DELTA = 1
_SHARES = {"storefront": 1.0, "checkout": 0.04, "inventory": 0.39, "search": 0.09}
_TYPICAL_MS = {"storefront": 62.0, "checkout": 330.0, "inventory": 30.0, "search": 85.0}
_MEBIBYTE = 2**20
_ZONES = ("a", "b")


@dataclass(frozen=True, slots=True)
class Metrics:
    """The parameters of the metrics; the same parameters give the same points at the same time."""

    seed: int
    troubles: Troubles

    def measure(self, end_s: int, step_s: int) -> dict[str, list[dict[str, Any]]]:
        """Return the metrics of the `step_s` seconds up to `end_s`, by service."""
        rng = random.Random(f"{self.seed} metrics {end_s}")
        measured: dict[str, list[dict[str, Any]]] = defaultdict(list)
        rate = expected_rate(end_s)
        is_slow = self.troubles.is_database_slow(end_s)
        times = {"startTimeUnixNano": f"{end_s - step_s}000000000", "timeUnixNano": f"{end_s}000000000"}
        for service in SERVICES:
            requests = max(0, round(rng.gauss(1.0, 0.1) * rate * step_s * _SHARES[service]))
            is_hit = is_slow and service in ("inventory", "storefront")
            add = measured[service].append
            cpu = min(0.98, 0.04 + rate * _SHARES[service] * 0.5 + abs(rng.gauss(0, 0.02)) + 0.3 * is_hit)
            add(_gauge("process.cpu.utilization", "1", "CPU time used, of one core", [(cpu, ())], times))
            memory = (150 + 40 * math.sin(end_s / 9000) + rng.gauss(0, 3)) * _MEBIBYTE
            add(_gauge("process.memory.usage", "By", "Physical memory in use", [(memory, ())], times))
            add(_counter(requests, times))
            typical = _TYPICAL_MS[service] * (6.0 if is_hit else 1.0)
            add(_histogram(rng, requests, typical, times))
        pool = [(float(rng.randint(2, 9) + 9 * is_slow), (("zone", zone),)) for zone in _ZONES]
        measured["inventory"].append(
            _gauge("db.client.connection.count", "{connection}", "Connections in use", pool, times)
        )
        orders = round(rng.gauss(1.0, 0.2) * rate * step_s * 0.04)
        measured["checkout"].append(
            _counter(max(0, orders), times, "shop.orders", "{order}", "Orders placed")
        )
        return measured


_Points = Sequence[tuple[float, tuple[tuple[str, str], ...]]]


def _gauge(name: str, unit: str, description: str, points: _Points, times: dict[str, str]) -> dict[str, Any]:
    at = times["timeUnixNano"]
    data = [
        {"timeUnixNano": at, "asDouble": round(value, 4), "attributes": texts(attributes)}
        for value, attributes in points
    ]
    return {"name": name, "unit": unit, "description": description, "gauge": {"dataPoints": data}}


def _counter(
    count: int,
    times: dict[str, str],
    name: str = "http.server.requests",
    unit: str = "{request}",
    description: str = "Requests served",
) -> dict[str, Any]:
    points = [{**times, "asInt": str(count)}]
    return {
        "name": name,
        "unit": unit,
        "description": description,
        "sum": {"aggregationTemporality": _DELTA, "isMonotonic": True, "dataPoints": points},
    }


def _histogram(rng: random.Random, requests: int, typical_ms: float, times: dict[str, str]) -> dict[str, Any]:
    values = [typical_ms * rng.lognormvariate(0.0, 0.5) for _ in range(min(requests, 60))]
    counts = [0] * (len(_BOUNDS) + 1)
    for value in values:
        counts[sum(value > bound for bound in _BOUNDS)] += 1
    point: dict[str, Any] = {
        **times,
        "count": str(len(values)),
        "sum": round(sum(values), 2),
        "bucketCounts": [str(count) for count in counts],
        "explicitBounds": _BOUNDS,
    }
    if values:
        point |= {"min": round(min(values), 2), "max": round(max(values), 2)}
    return {
        "name": "http.server.request.duration",
        "unit": "ms",
        "description": "Duration of requests",
        "histogram": {"aggregationTemporality": _DELTA, "dataPoints": [point]},
    }
