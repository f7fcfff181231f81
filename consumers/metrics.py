"""Counts what the consumers do."""

from collections import defaultdict
from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from pipeline_contracts.metric_names import MetricName


class ConsumerMetrics(Collector):
    """The counters of one consumer."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.records = 0
        self.duplicates = 0
        self.dead_letters = 0
        self.replayed_chunks = 0
        self.retries = 0
        self.failures = 0
        self.rows: defaultdict[str, int] = defaultdict(int)

    def collect(self) -> Iterable[Metric]:
        totals: list[tuple[MetricName, str, int]] = [
            ("pharos_consumer_records", "Records worked through", self.records),
            ("pharos_consumer_duplicates", "Records whose batch was stored already", self.duplicates),
            ("pharos_consumer_dead_letters", "Records put aside", self.dead_letters),
            ("pharos_consumer_replayed_chunks", "Chunks carried out again", self.replayed_chunks),
            ("pharos_consumer_retries", "Attempts that met an engine that was away", self.retries),
            ("pharos_consumer_failures", "Faults of the loop itself", self.failures),
        ]
        for name, meaning, value in totals:
            family = CounterMetricFamily(name, meaning, labels=["topic"])
            family.add_metric([self._topic], value)
            yield family
        table_name: MetricName = "pharos_consumer_rows"
        rows = CounterMetricFamily(table_name, "Rows inserted", labels=["table"])
        for table, count in sorted(self.rows.items()):
            rows.add_metric([table], count)
        yield rows
