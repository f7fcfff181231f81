"""Reads the values of the thresholds of all accounts, with one query of the column store for services and one for
metrics."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from analytics_queries.alerts.metric_minutes import MetricKey, MetricMinute, aggregate, metric_minutes
from analytics_queries.alerts.request_figures import RequestFigures, ServiceWindow, request_figures
from control_workers.alert_scan.conditions import Reading
from control_workers.alert_scan.queues import Queues
from control_workers.alert_scan.read_thresholds import PREFIX, ThresholdOf
from control_workers.alert_scan.shared_queries import SharedQuery, weigh
from storage_backends.column_store.interface import ColumnStore

_OF_SERVICES = ("service.error_rate", "service.latency")
# Maximum number of metrics in one query: the result has up to 120 rows for each metric, and the query contains the
# names of metrics.
_MOST = 300
_SECONDS = 12.0
_LEAST_SEEN = timedelta(minutes=2)
"""After a time in which nothing was received, averages and rates count as known again after this time. Sums would be
too small until the whole window has passed."""


class ThresholdScan:
    """Reads the values of thresholds."""

    def __init__(self, store: ColumnStore) -> None:
        self._store = store
        self._services = SharedQuery("thresholds of services", _MOST, _SECONDS)
        self._metrics = SharedQuery("thresholds of metrics", _MOST, _SECONDS)

    async def read(
        self,
        thresholds: Sequence[ThresholdOf],
        queues: Queues,
        now: datetime,
        blind_to: datetime,
        *,
        is_current: bool,
    ) -> Reading:
        """Return all enabled thresholds with their values.

        `is_current`: False while the column store cannot be read or lags; its values are then unknown. `blind_to`:
        when the last time ended in which Pharos received nothing; the values of windows that include such a time are
        unknown. The values of an account that could not be read are unknown too. A threshold on a queue that does not
        exist is left out.
        """
        enabled = [each for each in thresholds if each.row.enabled and _has_target(each, queues)]
        figures = await self._read_requests(enabled, now) if is_current else {}
        points = await self._read_points(enabled, now) if is_current else {}
        unseen = now - blind_to
        observed = []
        for threshold in enabled:
            row = threshold.row
            if row.kind in _OF_SERVICES:
                found = figures.get(_window_of(threshold))
                is_known = found is not None and unseen >= min(_window(threshold), _LEAST_SEEN)
                value = _value_of_service(found, row.kind) if found is not None and is_known else None
            elif row.kind == "metric.value":
                minutes = _choose_minutes(points.get((threshold.environment, row.target), ()), threshold)
                is_sum = row.aggregation == "sum" or any(each.is_counter for each in minutes)
                is_known = unseen >= (_window(threshold) if is_sum else min(_window(threshold), _LEAST_SEEN))
                value = aggregate(minutes, row.aggregation, threshold.window_minutes) if is_known else None
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


def _window(threshold: ThresholdOf) -> timedelta:
    return timedelta(minutes=threshold.window_minutes)


def _has_target(threshold: ThresholdOf, queues: Queues) -> bool:
    row = threshold.row
    return not row.kind.startswith("queue.") or (row.environment_id, row.target) in queues.by_name


def _choose_minutes(minutes: Sequence[MetricMinute], threshold: ThresholdOf) -> Sequence[MetricMinute]:
    service = threshold.row.service
    return [
        each for each in minutes if each.minute < threshold.window_minutes and service in (None, each.service)
    ]
