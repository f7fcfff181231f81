"""What was taken in, read back for an operator: traces, logs, issues."""

from datetime import datetime, timedelta
from typing import Any

from analytics_queries.exception_groups import exception_groups
from analytics_queries.newest_logs import LogFilter, newest_logs
from analytics_queries.newest_traces import TraceFilter, newest_traces
from analytics_queries.trace_spans import trace_spans
from control_domain.database.engine import Sessions
from control_domain.recorded_deployments.markers import version_at
from control_domain.recorded_deployments.operations import list_recorded
from pipeline_contracts.times import format_time, to_epoch_ms
from storage_backends.column_store.interface import ColumnStore

_MOST = 1000
_MOST_SPANS = 5000
_LONGEST_TEXT = 500


async def list_traces(store: ColumnStore, params: dict[str, Any], now: datetime) -> list[dict[str, Any]]:
    """The newest traces. `params`: environment_id, since_seconds, service, only_errors, least_ms, limit."""
    chosen = TraceFilter(
        environment_id=_text(params, "environment_id"),
        since_ms=_since_ms(params, now),
        service=_text(params, "service"),
        only_errors=bool(params.get("only_errors")),
        least_ms=float(params.get("least_ms") or 0),
    )
    return [_readable(row) for row in await newest_traces(store, chosen, _limit(params))]


async def show_trace(store: ColumnStore, params: dict[str, Any]) -> list[dict[str, Any]]:
    """The spans of a trace, up to 5,000. `params`: trace_id, environment_id."""
    return await trace_spans(
        store,
        environment_id=_text(params, "environment_id"),
        trace_id=_text(params, "trace_id").lower(),
        limit=_MOST_SPANS,
    )


async def list_logs(store: ColumnStore, params: dict[str, Any], now: datetime) -> list[dict[str, Any]]:
    """The newest log records. `params`: environment_id, since_seconds, service, trace_id, search, least_severity,
    limit."""
    chosen = LogFilter(
        environment_id=_text(params, "environment_id"),
        since_ms=_since_ms(params, now),
        service=_text(params, "service"),
        trace_id=_text(params, "trace_id").lower(),
        search=_text(params, "search"),
        least_severity=min(24, max(0, int(params.get("least_severity") or 0))),
    )
    return [_readable(row) for row in await newest_logs(store, chosen, _limit(params))]


async def list_issues(
    store: ColumnStore,
    sessions: Sessions,
    params: dict[str, Any],
    now: datetime,
) -> list[dict[str, Any]]:
    """The groups of exceptions seen last, each with the deployment that it first appeared after, recorded or
    Pharos' own (`first_deployment`: its version, null for none). `params`: environment_id, since_seconds, id, limit."""
    groups = await exception_groups(
        store,
        environment_id=_text(params, "environment_id"),
        since_ms=_since_ms(params, now),
        limit=_limit(params),
        group_id=_text(params, "id"),
    )
    async with sessions() as session:
        recorded = await list_recorded(session, sorted({group["environment_id"] for group in groups}))
    return [
        {
            **_readable(group),
            "first_deployment": version_at(recorded.get(group["environment_id"], []), group["first_seen"]),
        }
        for group in groups
    ]


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    return {name: format_time(value) if isinstance(value, datetime) else value for name, value in row.items()}


def _text(params: dict[str, Any], name: str) -> str:
    text = str(params.get(name) or "")
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"{name} has more than {_LONGEST_TEXT} characters.")
    return text


def _since_ms(params: dict[str, Any], now: datetime) -> int:
    since = now - timedelta(seconds=min(int(params.get("since_seconds") or 3600), 10**9))
    return max(0, to_epoch_ms(since))


def _limit(params: dict[str, Any]) -> int:
    return max(1, min(int(params.get("limit") or 20), _MOST))
