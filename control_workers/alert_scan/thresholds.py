"""Evaluates the thresholds of all accounts: one query of the column store for services, and one for metrics."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from analytics_queries.alerts.metric_minutes import MetricKey, MetricMinute, aggregate, metric_minutes
from analytics_queries.alerts.request_figures import RequestFigures, ServiceWindow, request_figures
from control_workers.alert_scan.conditions import Reading
from control_workers.alert_scan.queues import Queues
from control_workers.alert_scan.read_thresholds import PREFIX, ThresholdOf
from control_workers.alert_scan.shared_queries import SharedQuery, weigh
from storage_backends.column_store.interface import ColumnStore

_OF_SERVICES = ("service.error_rate", "service.latency")
# The result has up to 120 rows of a metric, and the names of targets are parts of a query.
_MOST = 300
_SECONDS = 12.0


class ThresholdScan:
    """Reads the values of thresholds."""

    def __init__(self, store: ColumnStore) -> None:
        self._store = store
        self._services = SharedQuery("thresholds of services", _MOST, _SECONDS)
        self._metrics = SharedQuery("thresholds of metrics", _MOST, _SECONDS)

    async def read(
        self, thresholds: Sequence[ThresholdOf], queues: Queues, now: datetime, *, is_readable: bool
    ) -> Reading:
        """Return all enabled thresholds with their values. `is_readable` is false while the column store cannot be
        read: the values from it are not known then. Nor are those of an account that could not be read."""
        enabled = [each for each in thresholds if each.row.enabled]
        figures = await self._read_requests(enabled, now) if is_readable else {}
        points = await self._read_points(enabled, now) if is_readable else {}
        observed = []
        for threshold in enabled:
            row = threshold.row
            if row.kind in _OF_SERVICES:
                found = figures.get(_window_of(threshold))
                value = None if found is None else _value_of_service(found, row.kind)
            elif row.kind == "metric.value":
                value = _value_of_metric(points.get((threshold.environment, row.target), ()), threshold)
            else:
                value = queues.value_for(threshold)
            observed.append(threshold.observe(value))
        return Reading(PREFIX, observed)

    async def _read_requests(
        self, enabled: Sequence[ThresholdOf], now: datetime
    ) -> Mapping[ServiceWindow, RequestFigures]:
        found: dict[ServiceWindow, RequestFigures] = {}
        of_accounts, weighed = weigh(
            [each for each in enabled if each.row.kind in _OF_SERVICES], lambda each: each.scope.account_id
        )

        async def query(accounts: Sequence[int]) -> None:
            some = [each for account in accounts for each in of_accounts[account]]
            found.update(await request_figures(self._store, {_window_of(each) for each in some}, now))

        await self._services.run(weighed, query, now)
        return found

    async def _read_points(
        self, enabled: Sequence[ThresholdOf], now: datetime
    ) -> Mapping[MetricKey, Sequence[MetricMinute]]:
        found: dict[MetricKey, Sequence[MetricMinute]] = {}
        of_accounts, weighed = weigh(
            [each for each in enabled if each.row.kind == "metric.value"], lambda each: each.scope.account_id
        )

        async def query(accounts: Sequence[int]) -> None:
            some = [each for account in accounts for each in of_accounts[account]]
            asked = {(each.environment, each.row.target, each.row.service) for each in some}
            minutes = max(each.window_minutes for each in some)
            found.update(await metric_minutes(self._store, asked, now, minutes))

        await self._metrics.run(weighed, query, now)
        return found


def _window_of(threshold: ThresholdOf) -> ServiceWindow:
    return threshold.environment, threshold.row.target, threshold.window_minutes


def _value_of_service(figures: RequestFigures, kind: str) -> float | None:
    return figures.error_rate if kind == "service.error_rate" else figures.p95_duration


def _value_of_metric(minutes: Sequence[MetricMinute], threshold: ThresholdOf) -> float | None:
    row = threshold.row
    fitting = [
        each
        for each in minutes
        if each.minute < threshold.window_minutes and row.service in (None, each.service)
    ]
    return aggregate(fitting, row.aggregation, threshold.window_minutes)
