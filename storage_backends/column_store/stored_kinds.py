"""The kinds of data whose retention people can see and set, and the tables that hold them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

Unit = Literal["day", "week", "month", "year"]


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table with a TTL. `time`: the SQL expression from which the TTL counts. `unit`: the time span of one
    partition."""

    name: str
    unit: Unit
    time: str


def _otel(name: str) -> StoredTable:
    return StoredTable(name, "day", "toDateTime(ReceivedAt)")


def _received(name: str, unit: Unit) -> StoredTable:
    return StoredTable(name, unit, "toDateTime(received_at)")


KINDS: Mapping[str, tuple[StoredTable, ...]] = {
    "telemetry_events": (_received("telemetry_events", "day"),),
    "otel_traces": (_otel("otel_traces"), _otel("otel_traces_trace_id_ts")),
    "otel_logs": (_otel("otel_logs"),),
    "otel_metrics": tuple(
        _otel(f"otel_metrics_{kind}")
        for kind in ("gauge", "sum", "histogram", "exponential_histogram", "summary")
    ),
    "exceptions": (_received("exceptions", "day"),),
    "pageviews": (_received("pageviews", "month"),),
    "daily_rollups": tuple(
        StoredTable(name, "year", "day")
        for name in ("visit_days", "visit_day_lists", "visit_day_figures", "visit_day_events", "told_days")
    ),
    "dropped_pageviews": (_received("dropped_pageviews", "month"),),
    "queue_history": (_received("queue_snapshots", "week"), _received("queue_worker_updates", "week")),
    "ingest_receipts": (_received("ingest_receipts", "week"),),
}
"""The tables of each kind, by the kind's field in `Retention`. Kinds whose retention people cannot change are left
out."""


def partition_start(unit: Unit, partition_id: str) -> date:
    """Return the first day of the partition. Its ID has one of the forms `20261126`, `202611` and `2026`."""
    year, month, day = partition_id[:4], partition_id[4:6] or "1", partition_id[6:8] or "1"
    if len(partition_id) != {"year": 4, "month": 6}.get(unit, 8):
        raise ValueError(f"{partition_id!r} is no partition of a {unit}")
    return date(int(year), int(month), int(day))


def partition_end(unit: Unit, partition_id: str) -> date:
    """Return the first day after the partition."""
    start = partition_start(unit, partition_id)
    match unit:
        case "day":
            return start + timedelta(days=1)
        case "week":
            return start + timedelta(days=7)
        case "month":
            return date(start.year + start.month // 12, start.month % 12 + 1, 1)
        case "year":
            return date(start.year + 1, 1, 1)
