"""Count the edge's requests and events in plain integers, and export them to Prometheus.

One event loop needs no lock. Prometheus's metric objects take a lock for each increment, which takes a measurable part
of a request's time.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from pipeline_contracts.metric_names import MetricName

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def _name(name: MetricName) -> str:
    return name


class EdgeMetrics(Collector):
    """The counters of one edge process."""

    def __init__(self) -> None:
        self.requests: defaultdict[tuple[str, int], int] = defaultdict(int)
        self.events_accepted = 0
        self.signals_accepted = 0
        self.sentry_dropped: Mapping[tuple[str, str], int] = {}
        """Dropped items of Sentry's SDKs by type and reason."""
        self._buckets = [0] * (len(_BOUNDS) + 1)
        self._seconds = 0.0
        self._gauges: list[tuple[MetricName, str, Callable[[], float]]] = []

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count one response."""
        self.requests[route, status] += 1
        self._buckets[bisect_left(_BOUNDS, seconds)] += 1
        self._seconds += seconds

    def add_gauge(self, name: MetricName, meaning: str, read: Callable[[], float]) -> None:
        """Export a number that `read` returns at each scrape."""
        self._gauges.append((name, meaning, read))

    def collect(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(_name("pharos_edge_requests"), "Responses", labels=["route", "status"])
        for (route, status), count in sorted(self.requests.items()):
            requests.add_metric([route, str(status)], count)
        yield requests
        yield CounterMetricFamily(
            _name("pharos_edge_events_accepted"), "Events acknowledged with a 202", value=self.events_accepted
        )
        yield CounterMetricFamily(
            _name("pharos_edge_signals_accepted"),
            "Signals of monitors acknowledged with a 202",
            value=self.signals_accepted,
        )
        dropped = CounterMetricFamily(
            _name("pharos_edge_sentry_dropped_items"),
            "Items of Sentry SDKs that were accepted and not kept",
            labels=["type", "reason"],
        )
        for labels, count in sorted(self.sentry_dropped.items()):
            dropped.add_metric(labels, count)
        yield dropped
        total = 0
        buckets = []
        for bound, count in zip((*map(str, _BOUNDS), "+Inf"), self._buckets, strict=True):
            total += count
            buckets.append((bound, total))
        yield HistogramMetricFamily(
            _name("pharos_edge_request_seconds"),
            "Time to the response",
            buckets=buckets,
            sum_value=self._seconds,
        )
        for name, meaning, read in self._gauges:
            yield GaugeMetricFamily(_name(name), meaning, value=read())


def new_registry() -> CollectorRegistry:
    """Return a registry without the default collectors of the process."""
    return CollectorRegistry(auto_describe=False)
