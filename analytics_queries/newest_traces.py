"""Which traces began last, of one environment or of all?"""

from dataclasses import dataclass
from typing import Any

from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__)


@dataclass(frozen=True, slots=True)
class TraceFilter:
    """Empty texts leave everything in; times are milliseconds."""

    environment_id: str = ""
    since_ms: int = 0
    """Traces whose spans began since then, after 1970."""
    service: str = ""
    """Traces with a span of this service."""
    only_errors: bool = False
    least_ms: float = 0.0


async def newest_traces(store: ColumnStore, wanted: TraceFilter, limit: int) -> list[dict[str, Any]]:
    """The newest first: environment_id, trace_id, started_at, name and service of the root (or of what began first),
    duration_ms, spans, errors. Raises `StorageUnavailable`."""
    parameters = {
        "environment": wanted.environment_id,
        "since_ms": wanted.since_ms,
        "service": wanted.service,
        "only_errors": wanted.only_errors,
        "least_ms": wanted.least_ms,
        "limit": limit,
    }
    return (await store.query(_SQL, parameters)).records()
