"""Counts what the consumers do."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from pipeline_contracts.metric_names import MetricName


class ConsumerMetrics:
    """The counters of one consumer."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.records = 0
        self.duplicates = 0
        self.dead_letters = 0
        self.replayed_chunks = 0
        self.retries = 0
        self.failures = 0
        self.rows: defaultdict[str, int] = defaultdict(int)


class ConsumersCollector(Collector):
    """The counters of all consumers of a process: a family is shown once, with the samples of each of them."""

    def __init__(self) -> None:
        self._consumers: list[ConsumerMetrics] = []

    def add(self, metrics: ConsumerMetrics) -> None:
        """Show these counters too."""
        self._consumers.append(metrics)

    def collect(self) -> Iterable[Metric]:
        """All of them."""
        totals: list[tuple[MetricName, str, Callable[[ConsumerMetrics], int]]] = [
            ("pharos_consumer_records", "Records worked through", lambda one: one.records),
            (
                "pharos_consumer_duplicates",
                "Records whose batch was stored already",
                lambda one: one.duplicates,
            ),
            ("pharos_consumer_dead_letters", "Records put aside", lambda one: one.dead_letters),
            ("pharos_consumer_replayed_chunks", "Chunks carried out again", lambda one: one.replayed_chunks),
            ("pharos_consumer_retries", "Attempts that met an engine that was away", lambda one: one.retries),
            ("pharos_consumer_failures", "Faults of the loop itself", lambda one: one.failures),
        ]
        for name, meaning, read in totals:
            family = CounterMetricFamily(name, meaning, labels=["topic"])
            for one in self._consumers:
                family.add_metric([one.topic], read(one))
            yield family
        table_name: MetricName = "pharos_consumer_rows"
        rows = CounterMetricFamily(table_name, "Rows inserted", labels=["table"])
        inserted: Counter[str] = Counter()
        for one in self._consumers:
            inserted.update(one.rows)
        for table, count in sorted(inserted.items()):
            rows.add_metric([table], count)
        yield rows
