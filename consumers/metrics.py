"""Metrics of the consumers."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from pipeline_contracts.metric_names import MetricName


class ConsumerMetrics:
    """Counts what one consumer has done."""

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
    """Collects the counters of all consumers of a process. Each metric family occurs once, with a sample for each
    consumer."""

    def __init__(self) -> None:
        self._consumers: list[ConsumerMetrics] = []

    def add(self, metrics: ConsumerMetrics) -> None:
        """Include the counters of one more consumer."""
        self._consumers.append(metrics)

    def collect(self) -> Iterable[Metric]:
        totals: list[tuple[MetricName, str, Callable[[ConsumerMetrics], int]]] = [
            ("pharos_consumer_records", "Records processed", lambda consumer: consumer.records),
            (
                "pharos_consumer_duplicates",
                "Records whose batch was stored already",
                lambda consumer: consumer.duplicates,
            ),
            (
                "pharos_consumer_dead_letters",
                "Records moved to the dead letters",
                lambda consumer: consumer.dead_letters,
            ),
            (
                "pharos_consumer_replayed_chunks",
                "Open plans of chunks that were finished",
                lambda consumer: consumer.replayed_chunks,
            ),
            (
                "pharos_consumer_retries",
                "Attempts that failed because an engine was unavailable",
                lambda consumer: consumer.retries,
            ),
            (
                "pharos_consumer_failures",
                "Unexpected errors of the loop itself",
                lambda consumer: consumer.failures,
            ),
        ]
        for name, meaning, read in totals:
            family = CounterMetricFamily(name, meaning, labels=["topic"])
            for consumer in self._consumers:
                family.add_metric([consumer.topic], read(consumer))
            yield family
        table_name: MetricName = "pharos_consumer_rows"
        rows = CounterMetricFamily(table_name, "Rows inserted", labels=["table"])
        inserted: Counter[str] = Counter()
        for consumer in self._consumers:
            inserted.update(consumer.rows)
        for table, count in sorted(inserted.items()):
            rows.add_metric([table], count)
        yield rows
