"""Metrics of a deployer."""

from collections import Counter
from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from pipeline_contracts.metric_names import MetricName


def _name(name: MetricName) -> str:
    return name


class DeployerMetrics(Collector):
    """The metrics of one deployer. Used in one event loop, so no lock is needed."""

    def __init__(self) -> None:
        self.finished: Counter[str] = Counter()
        """Number of deployments that have ended, by status."""
        self.instances: dict[int, Counter[str]] = {}
        """Number of instances by environment and state."""
        self.failures = 0

    def collect(self) -> Iterable[Metric]:
        finished = CounterMetricFamily(
            _name("pharos_deployer_deployments"),
            "Deployments carried out, by how they ended",
            labels=["status"],
        )
        for status, count in self.finished.items():
            finished.add_metric([status], count)
        yield finished
        instances = GaugeMetricFamily(
            _name("pharos_deployer_instances"), "Processes of environments, by state", labels=["state"]
        )
        for state, count in sum(self.instances.values(), Counter[str]()).items():
            instances.add_metric([state], count)
        yield instances
        yield CounterMetricFamily(
            _name("pharos_deployer_failures"),
            "Faults of the deployer itself: each is a defect, with its stack in the log",
            value=self.failures,
        )
