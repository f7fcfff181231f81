"""What was logged last, over OTLP or as telemetry events?"""

from dataclasses import dataclass
from typing import Any

from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__)


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Empty texts match every record."""

    environment_id: str = ""
    since_ms: int = 0
    """Milliseconds after 1970."""
    service: str = ""
    trace_id: str = ""
    search: str = ""
    """Part of the text, in any case."""
    least_severity: int = 0
    """OpenTelemetry's number: 5 debug, 9 info, 13 warning, 17 error, 21 fatal."""


async def newest_logs(store: ColumnStore, filters: LogFilter, limit: int) -> list[dict[str, Any]]:
    """Return the newest records first: environment_id, at, severity_number, severity, service, text, trace_id, span_id,
    attributes.

    Raises `StorageUnavailable`.
    """
    parameters = {
        "environment": filters.environment_id,
        "since_ms": filters.since_ms,
        "service": filters.service,
        "trace": filters.trace_id,
        "search": filters.search,
        "least_severity": filters.least_severity,
        "limit": limit,
    }
    return (await store.query(_SQL, parameters)).records()
