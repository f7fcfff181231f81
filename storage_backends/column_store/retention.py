"""How long the tables keep their rows."""

import re
from dataclasses import dataclass, fields

_INTERVAL = re.compile(r"[1-9][0-9]{0,4} (HOUR|DAY|YEAR)")


@dataclass(frozen=True, slots=True)
class Retention:
    """ClickHouse intervals, such as `90 DAY`, that the schema files name as `{field}` in their TTL clauses.

    They apply only to newly created tables. Raises `ValueError` for a text that is not an interval.
    """

    telemetry_events: str = "90 DAY"
    ingest_receipts: str = "30 DAY"
    otel_traces: str = "30 DAY"
    """Spans, and the times of their traces."""
    otel_logs: str = "30 DAY"
    otel_metrics: str = "30 DAY"
    exceptions: str = "90 DAY"
    """A copy of the exceptions of all signals, by which they are grouped."""
    queue_history: str = "90 DAY"
    pageviews: str = "3 YEAR"
    dropped_pageviews: str = "90 DAY"
    daily_rollups: str = "3 YEAR"
    pageview_ids: str = "4 DAY"
    """People cannot change this one: consumers look up repeated events of the last four days here."""
    open_visit_days: str = "2 HOUR"
    """People cannot change this one: reports compute rollups of unfinished days again after half an hour."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not _INTERVAL.fullmatch(value):
                raise ValueError(f"Retention of {field.name}: {value!r} is not an interval like '90 DAY'.")
