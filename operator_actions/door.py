"""The actions of the operator's commands by name, for the socket of `pharos up` and for direct use on the engines."""

import functools
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from control_domain.database.errors import BrokenReference
from control_domain.refusals import Refused
from operator_actions.actions import (
    accounts,
    audit,
    deployments,
    environments,
    monitors,
    ping_keys,
    projects,
    repositories,
    sites,
    variables,
    webhooks,
    workflows,
)
from operator_actions.actions import change_monitors as monitor_changes
from operator_actions.actions import configurations as configuration
from operator_actions.actions import follow_deployment as follow_action
from operator_actions.actions import ingest_keys as keys
from operator_actions.actions import people as person_actions
from operator_actions.actions import previews as preview_actions
from operator_actions.actions import processes as runtime
from operator_actions.actions import queue_deployments as queue_actions
from operator_actions.actions import telemetry as reading
from operator_actions.actions import tokens as token_actions
from operator_actions.actions.engines import Action, Engines, Params, read_id
from pipeline_contracts.errors import Conflict, NotFound

__all__ = ["ACTIONS", "Engines"]


async def _list_keys(engines: Engines, params: Params, now: datetime) -> Any:
    return list(await keys.list_keys(engines.sessions))


async def _create_key(engines: Engines, params: Params, now: datetime) -> Any:
    return await keys.create_key(engines.sessions, engines.directory, params.get("environment_id"), now)


async def _revoke_key(engines: Engines, params: Params, now: datetime) -> Any:
    return await keys.revoke_ingest_key(engines.sessions, engines.directory, read_id(params, "id"), now)


async def _list_heartbeats(engines: Engines, params: Params, now: datetime) -> Any:
    return list(await monitors.list_heartbeats(engines.sessions))


async def _show_heartbeat(engines: Engines, params: Params, now: datetime) -> Any:
    number = read_id(params, "id")
    heartbeat = await monitors.show_heartbeat(engines.sessions, number)
    return {**heartbeat, "ping_keys": await ping_keys.show_ping_keys(engines, number, now)}


async def _create_heartbeat(engines: Engines, params: Params, now: datetime) -> Any:
    heartbeat = await monitors.add_heartbeat(engines.sessions, engines.directory, params, now)
    if engines.variable_keys is None:
        # `_show_heartbeat` creates the first ping key later.
        return heartbeat
    return {**heartbeat, **await ping_keys.add_ping_key(engines, heartbeat["id"], now)}


async def _pause_heartbeat(engines: Engines, params: Params, now: datetime) -> Any:
    return await monitors.pause_heartbeat(
        engines.sessions, read_id(params, "id"), bool(params["paused"]), now
    )


async def _list_queues(engines: Engines, params: Params, now: datetime) -> Any:
    return list(await monitors.list_queues(engines.sessions, now))


async def _show_queue(engines: Engines, params: Params, now: datetime) -> Any:
    return await monitors.show_queue(engines.sessions, read_id(params, "id"), now)


async def _create_queue(engines: Engines, params: Params, now: datetime) -> Any:
    return await monitors.add_queue(engines.sessions, engines.directory, params, now)


async def _create_monitor_key(engines: Engines, params: Params, now: datetime) -> Any:
    return await monitors.add_key(
        engines.sessions, engines.directory, str(params["kind"]), read_id(params, "id"), now
    )


async def _create_ping_key(engines: Engines, params: Params, now: datetime) -> Any:
    return await ping_keys.add_ping_key(engines, read_id(params, "id"), now)


async def _revoke_monitor_key(engines: Engines, params: Params, now: datetime) -> Any:
    return await monitors.revoke_monitor_key(
        engines.sessions,
        engines.directory,
        str(params["kind"]),
        read_id(params, "id"),
        read_id(params, "key_id"),
        now,
    )


async def _list_traces(engines: Engines, params: Params, now: datetime) -> Any:
    return await reading.list_traces(engines.column_store(), params, now)


async def _show_trace(engines: Engines, params: Params, now: datetime) -> Any:
    return await reading.show_trace(engines.column_store(), params)


async def _list_logs(engines: Engines, params: Params, now: datetime) -> Any:
    return await reading.list_logs(engines.column_store(), params, now)


async def _list_issues(engines: Engines, params: Params, now: datetime) -> Any:
    return await reading.list_issues(engines.column_store(), engines.sessions, params, now)


async def _list_sites(engines: Engines, params: Params, now: datetime) -> Any:
    return await sites.list_sites(engines.sessions, engines.store, now)


async def _show_site(engines: Engines, params: Params, now: datetime) -> Any:
    return await sites.show_site(engines.sessions, engines.store, read_id(params, "id"), now)


async def _create_site(engines: Engines, params: Params, now: datetime) -> Any:
    return await sites.add_site(engines.sessions, engines.directory, params, now)


async def _change_domains(engines: Engines, params: Params, now: datetime) -> Any:
    return await sites.change_domains(engines.sessions, engines.directory, read_id(params, "id"), params)


async def _change_timezone(engines: Engines, params: Params, now: datetime) -> Any:
    return await sites.change_timezone(engines.sessions, read_id(params, "id"), params)


async def _add_goal(engines: Engines, params: Params, now: datetime) -> Any:
    return await sites.add_goal(engines.sessions, read_id(params, "id"), params, now)


async def _remove_goal(engines: Engines, params: Params, now: datetime) -> Any:
    return await sites.remove_goal(engines.sessions, read_id(params, "id"), read_id(params, "goal_id"))


async def _remove_site(engines: Engines, params: Params, now: datetime) -> Any:
    return await sites.remove_site(engines.sessions, engines.directory, read_id(params, "id"), params, now)


async def _report_site(engines: Engines, params: Params, now: datetime) -> Any:
    site_id = None if params.get("id") is None else read_id(params, "id")
    return await sites.report_site(engines.sessions, engines.column_store(), site_id, params, now)


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
    "keys/list": _list_keys,
    "keys/create": _create_key,
    "keys/revoke": _revoke_key,
    "heartbeats/list": _list_heartbeats,
    "heartbeats/show": _show_heartbeat,
    "heartbeats/create": _create_heartbeat,
    "heartbeats/pause": _pause_heartbeat,
    **monitor_changes.ACTIONS,
    "queues/list": _list_queues,
    "queues/show": _show_queue,
    "queues/create": _create_queue,
    "monitor-keys/create": _create_monitor_key,
    "monitor-keys/revoke": _revoke_monitor_key,
    "ping-keys/create": _create_ping_key,
    "traces/list": _list_traces,
    "traces/show": _show_trace,
    "logs/list": _list_logs,
    "issues/list": _list_issues,
    "sites/list": _list_sites,
    "sites/show": _show_site,
    "sites/create": _create_site,
    "sites/domains": _change_domains,
    "sites/timezone": _change_timezone,
    "sites/goals-add": _add_goal,
    "sites/goals-remove": _remove_goal,
    "sites/remove": _remove_site,
    "sites/report": _report_site,
    **accounts.ACTIONS,
    **person_actions.ACTIONS,
    **token_actions.ACTIONS,
    **projects.ACTIONS,
    **audit.ACTIONS,
    **environments.ACTIONS,
    **preview_actions.ACTIONS,
    **repositories.ACTIONS,
    **webhooks.ACTIONS,
    **deployments.ACTIONS,
    **queue_actions.ACTIONS,
    **follow_action.ACTIONS,
    **runtime.ACTIONS,
    **variables.ACTIONS,
    **workflows.ACTIONS,
    **configuration.ACTIONS,
}

ACTIONS: Mapping[str, Action] = {name: _refuse_removed_parent(action) for name, action in _ACTIONS.items()}
