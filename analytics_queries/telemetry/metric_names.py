"""Which metrics were reported in a time range?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from analytics_queries.telemetry.events import LONGEST_NAME, LONGEST_TEXT
from analytics_queries.telemetry.limited_sql import query_limited, read_limited_sql
from analytics_queries.telemetry.time_range import TimeRange
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_sql(__file__)
LONGEST_METRIC_NAME = 255
"""Maximum length of a name in bytes, as in OpenTelemetry. Longer names are not listed."""

MetricKind = Literal["gauge", "counter", "up_down_counter", "histogram", "exponential_histogram", "summary"]
_DELTA = 1


class NameKey(NamedTuple):
    """The position of a metric in the order of the list. A name alone does not suffice, because a metric may
    have points in several tables."""

    name: str
    table: str


@dataclass(frozen=True, slots=True)
class NamedMetric:
    """A metric, described by its newest points."""

    name: str
    table: str
    """The kind of the metric: gauge, sum, histogram, exponential_histogram, summary, or event (telemetry
    events of the type metric)."""
    last_seen_ns: int
    unit: str
    description: str
    is_delta: bool
    """True if the points are increases. False if they are totals."""
    is_monotonic: bool
    services: Sequence[str]
    """The services that report the metric, at most 20."""

    @property
    def key(self) -> NameKey:
        return NameKey(self.name, self.table)

    @property
    def kind(self) -> MetricKind:
        match self.table:
            case "sum":
                return "counter" if self.is_monotonic else "up_down_counter"
            case "histogram" | "exponential_histogram" | "summary" as kind:
                return kind
        return "gauge"


async def metric_names(
    store: ColumnStore,
    environment_id: str,
    within: TimeRange,
    *,
    name: str = "",
    search: str = "",
    service: str = "",
    after: NameKey | None = None,
    limit: int,
) -> list[NamedMetric]:
    """Return at most `limit` metrics that follow `after`, in ascending order of their keys.

    `name`: the whole name. `search`: a part of the name, in upper or lower case. An empty text matches every
    metric. Raises `StorageUnavailable`.
    """
    after = after or NameKey("", "")
    parameters = {
        "environment": environment_id,
        "begin_ns": within.start,
        "end_ns": within.end,
        "name": name,
        "search": search,
        "service": service,
        "longest_metric_name": LONGEST_METRIC_NAME,
        "longest_name": LONGEST_NAME,
        "longest_text": LONGEST_TEXT,
        "after_name": after.name,
        "after_table": after.table,
        "limit": limit,
    }
    return [
        NamedMetric(found, table, last_seen, unit, description, temporality == _DELTA, is_monotonic, services)
        for found, table, last_seen, unit, description, temporality, is_monotonic, services in (
            await query_limited(store, _SQL, parameters, uses_projections=True)
        ).rows
    ]
