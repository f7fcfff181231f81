"""Defines how long the tables keep their rows."""

import re
from dataclasses import dataclass, fields

_INTERVAL = re.compile(r"[1-9][0-9]{0,4} (HOUR|DAY|YEAR)")


@dataclass(frozen=True, slots=True)
class Retention:
    """How long each kind of data is kept: ClickHouse intervals such as `90 DAY`. Schema files use them as
    `{field}` in TTL clauses.

    They apply only to newly created tables. Raises `ValueError` for a text that is not an interval.
    """

    telemetry_events: str = "90 DAY"
    ingest_receipts: str = "30 DAY"
    otel_traces: str = "30 DAY"
    """Retention of spans, and of the start and end times of their traces."""
    otel_logs: str = "30 DAY"
    otel_metrics: str = "30 DAY"
    exceptions: str = "90 DAY"
    """Retention of the copies of exceptions, from all signals, by which exceptions are grouped."""
    queue_history: str = "90 DAY"
    pageviews: str = "3 YEAR"
    dropped_pageviews: str = "90 DAY"
    daily_rollups: str = "3 YEAR"
    pageview_ids: str = "4 DAY"
    """Retention of the IDs of events. People cannot change it: consumers search the last four days for
    repeated events."""
    open_visit_days: str = "2 HOUR"
    """Retention of the rollups of unfinished days. People cannot change it: reports compute these rollups
    again after half an hour."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not _INTERVAL.fullmatch(value):
                raise ValueError(f"Retention of {field.name}: {value!r} is not an interval like '90 DAY'.")
