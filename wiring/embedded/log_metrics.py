"""Limits of the embedded event log from the settings, and its Prometheus metrics."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from pipeline_contracts.metric_names import MetricName
from pipeline_contracts.settings import Settings
from storage_backends.event_log.sqlite import SqliteEventLog
from storage_backends.event_log.sqlite_writer import Bounds

_DEAD_BYTES: MetricName = "pharos_log_dead_letter_bytes"
_REMOVED: MetricName = "pharos_log_dead_letters_removed"


def log_bounds(settings: Settings) -> Bounds:
    """Return the limits of the log from the settings."""
    return Bounds(settings.log_max_bytes, settings.dead_letter_bytes, settings.min_free_bytes)


class LogMetrics(Collector):
    """Metrics of the dead letters of one log."""

    def __init__(self, log: SqliteEventLog) -> None:
        self._log = log

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(
            _DEAD_BYTES, "Bytes of dead letters in the log", value=self._log.dead_letter_bytes()
        )
        yield CounterMetricFamily(
            _REMOVED,
            "Dead letters removed because newer ones needed the space",
            value=self._log.dead_letters_removed,
        )
