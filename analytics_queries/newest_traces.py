"""Which traces began last, of one environment or of all?"""

from dataclasses import dataclass
from typing import Any

from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__)


@dataclass(frozen=True, slots=True)
class TraceFilter:
    """Empty texts match every trace; times are milliseconds."""

    environment_id: str = ""
    since_ms: int = 0
    """Only spans that began since then (after 1970) count."""
    service: str = ""
    """Traces with a span of this service."""
    only_errors: bool = False
    least_ms: float = 0.0


async def newest_traces(store: ColumnStore, filters: TraceFilter, limit: int) -> list[dict[str, Any]]:
    """Return the newest traces first: environment_id, trace_id, started_at, name and service of the root or else the
    first span, duration_ms, spans, errors. Raises `StorageUnavailable`."""
    parameters = {
        "environment": filters.environment_id,
        "since_ms": filters.since_ms,
        "service": filters.service,
        "only_errors": filters.only_errors,
        "least_ms": filters.least_ms,
        "limit": limit,
    }
    return (await store.query(_SQL, parameters)).records()
