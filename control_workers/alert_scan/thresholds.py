"""Evaluates the thresholds of all accounts: one query of the column store for services, and one for metrics."""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from analytics_queries.alerts.metric_minutes import MetricKey, MetricMinute, aggregate, metric_minutes
from analytics_queries.alerts.request_figures import (
    RequestMinute,
    ServiceKey,
    error_rate,
    p95_duration,
    request_minutes,
)
from control_workers.alert_scan.conditions import Reading
from control_workers.alert_scan.queues import Queues
from control_workers.alert_scan.read_thresholds import PREFIX, ThresholdOf
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.interface import ColumnStore, QueryRefused

logger = logging.getLogger(__name__)

_OF_SERVICES: Mapping[str, Callable[[Sequence[RequestMinute]], float | None]] = {
    "service.error_rate": error_rate,
    "service.latency": p95_duration,
}


async def read_values(
    store: ColumnStore | None, thresholds: Sequence[ThresholdOf], queues: Queues, now: datetime
) -> Reading:
    """Return all enabled thresholds with their values. `store` is None while it cannot be read: the values from it are
    not known then."""
    enabled = [each for each in thresholds if each.row.enabled]
    services = [each for each in enabled if each.row.kind in _OF_SERVICES]
    metrics = [each for each in enabled if each.row.kind == "metric.value"]
    requests = await _read_requests(store, services, now)
    points = await _read_points(store, metrics, now)
    observed = []
    for threshold in enabled:
        row = threshold.row
        key = (threshold.environment, row.target)
        if row.kind in _OF_SERVICES:
            value = _OF_SERVICES[row.kind](_cut(requests.get(key, ()), threshold))
        elif row.kind == "metric.value":
            value = _value_of_metric(points.get(key, ()), threshold)
        else:
            value = queues.value_for(threshold)
        observed.append(threshold.observe(value))
    return Reading(PREFIX, observed)


async def _read_requests(
    store: ColumnStore | None, thresholds: Sequence[ThresholdOf], now: datetime
) -> Mapping[ServiceKey, Sequence[RequestMinute]]:
    if store is None or not thresholds:
        return {}
    try:
        return await request_minutes(
            store,
            {(each.environment, each.row.target) for each in thresholds},
            now,
            max(each.window_minutes for each in thresholds),
        )
    except (StorageUnavailable, QueryRefused) as error:
        logger.warning("thresholds of services cannot be evaluated now: %s", error)
        return {}


async def _read_points(
    store: ColumnStore | None, thresholds: Sequence[ThresholdOf], now: datetime
) -> Mapping[MetricKey, Sequence[MetricMinute]]:
    if store is None or not thresholds:
        return {}
    try:
        return await metric_minutes(
            store,
            {(each.environment, each.row.target) for each in thresholds},
            now,
            max(each.window_minutes for each in thresholds),
        )
    except (StorageUnavailable, QueryRefused) as error:
        logger.warning("thresholds of metrics cannot be evaluated now: %s", error)
        return {}


def _cut(minutes: Sequence[RequestMinute], threshold: ThresholdOf) -> Sequence[RequestMinute]:
    return [each for each in minutes if each.minute < threshold.window_minutes]


def _value_of_metric(minutes: Sequence[MetricMinute], threshold: ThresholdOf) -> float | None:
    row = threshold.row
    fitting = [
        each
        for each in minutes
        if each.minute < threshold.window_minutes and row.service in (None, each.service)
    ]
    return aggregate(fitting, row.aggregation, threshold.window_minutes)
