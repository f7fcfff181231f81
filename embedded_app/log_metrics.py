"""The embedded event log's bounds out of the settings, and what it counts, shown to Prometheus when asked."""

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
    """What the settings let the log take."""
    return Bounds(settings.log_max_bytes, settings.dead_letter_bytes, settings.min_free_bytes)


class LogMetrics(Collector):
    """The dead letters of one log."""

    def __init__(self, log: SqliteEventLog) -> None:
        self._log = log

    def collect(self) -> Iterable[Metric]:
        """All of them."""
        yield GaugeMetricFamily(
            _DEAD_BYTES, "Bytes of dead letters in the log", value=self._log.dead_letter_bytes()
        )
        yield CounterMetricFamily(
            _REMOVED,
            "Dead letters that left because newer ones needed the room",
            value=self._log.dead_letters_removed,
        )
