"""The actions of the operator's commands by name, for the socket of `pharos up` and for direct use on the engines."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from operator_actions.actions import telemetry as reading
from operator_actions.actions.engines import Action, Engines, Params

__all__ = ["ACTIONS", "Engines"]


async def _list_traces(engines: Engines, params: Params, now: datetime) -> Any:
    return await reading.list_traces(engines.column_store(), params, now)


async def _show_trace(engines: Engines, params: Params, now: datetime) -> Any:
    return await reading.show_trace(engines.column_store(), params)


async def _list_logs(engines: Engines, params: Params, now: datetime) -> Any:
    return await reading.list_logs(engines.column_store(), params, now)


async def _list_issues(engines: Engines, params: Params, now: datetime) -> Any:
    return await reading.list_issues(engines.column_store(), engines.sessions, params, now)


ACTIONS: Mapping[str, Action] = {
    "traces/list": _list_traces,
    "traces/show": _show_trace,
    "logs/list": _list_logs,
    "issues/list": _list_issues,
}
