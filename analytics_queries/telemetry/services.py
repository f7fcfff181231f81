"""How many requests did each service serve in a time range, how many failed, and how long did they take?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analytics_queries.telemetry.request_rollups import Percentiles, RequestStep, request_steps
from analytics_queries.telemetry.time_range import TimeRange
from storage_backends.column_store.interface import ColumnStore


@dataclass(frozen=True, slots=True)
class ServiceFigures:
    """The requests of a service. Percentiles of durations are in milliseconds. They are None if no request has a
    duration."""

    service: str
    requests: int
    errors: int
    durations: Percentiles


async def service_figures(
    store: ColumnStore, environment_id: str, within: TimeRange, *, after: str | None = None, limit: int
) -> Sequence[ServiceFigures]:
    """Return at most `limit` services, sorted by name. Their names come after `after`.

    Requests are telemetry events of the types request and job, and spans of the kinds Server and Consumer. The
    percentiles have an error of at most 1 %. Raises `StorageUnavailable`.
    """
    found = await request_steps(store, environment_id, within, after=after, limit=limit)
    return [ServiceFigures(each.service, each.requests, each.errors, each.durations) for each in found]


async def service_trends(
    store: ColumnStore, environment_id: str, within: TimeRange, services: Sequence[str], step_s: int
) -> Mapping[str, Sequence[RequestStep]]:
    """Return the requests and errors of these services in each step. Steps without requests are left out. Raises
    `StorageUnavailable`."""
    if not services:
        return {}
    steps = len(services) * (int(within.seconds) // step_s + 2)
    found = await request_steps(
        store,
        environment_id,
        within,
        step_s=step_s,
        services=services,
        has_durations=False,
        limit=steps,
    )
    trends: dict[str, list[RequestStep]] = {service: [] for service in services}
    for each in found:
        trends[each.service].append(each)
    return trends
