"""The actions of the operator's commands by name, for the socket of `pharos up` and for direct use on the engines."""

import functools
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from control_domain.database.errors import BrokenReference
from control_domain.refusals import Refused
from operator_actions.actions import accounts, audit, projects
from operator_actions.actions import people as person_actions
from operator_actions.actions import telemetry as reading
from operator_actions.actions import tokens as token_actions
from operator_actions.actions.engines import Action, Engines, Params
from pipeline_contracts.errors import Conflict, NotFound

__all__ = ["ACTIONS", "Engines"]


async def _list_traces(engines: Engines, params: Params, now: datetime) -> Any:
    return await reading.list_traces(engines.column_store(), params, now)


async def _show_trace(engines: Engines, params: Params, now: datetime) -> Any:
    return await reading.show_trace(engines.column_store(), params)


async def _list_logs(engines: Engines, params: Params, now: datetime) -> Any:
    return await reading.list_logs(engines.column_store(), params, now)


async def _list_issues(engines: Engines, params: Params, now: datetime) -> Any:
    return await reading.list_issues(engines.column_store(), engines.sessions, params, now)


def _refuse_removed_parent(action: Action) -> Action:
    """Return the action, which raises `Refused` if its object or the parent of a new row was removed while it ran."""

    @functools.wraps(action)
    async def act(engines: Engines, params: Params, now: datetime) -> Any:
        try:
            return await action(engines, params, now)
        except BrokenReference:
            raise Refused(
                "Its parent object was removed while this command ran. Nothing was changed."
            ) from None
        except (NotFound, Conflict) as error:
            raise Refused(error.detail) from error

    return act


_ACTIONS: Mapping[str, Action] = {
    "traces/list": _list_traces,
    "traces/show": _show_trace,
    "logs/list": _list_logs,
    "issues/list": _list_issues,
    **accounts.ACTIONS,
    **person_actions.ACTIONS,
    **token_actions.ACTIONS,
    **projects.ACTIONS,
    **audit.ACTIONS,
}

ACTIONS: Mapping[str, Action] = {name: _refuse_removed_parent(action) for name, action in _ACTIONS.items()}
