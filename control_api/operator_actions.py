"""What an operator's commands may ask, by name: the same on the socket of `pharos up` and straight on the engines."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from control_api import reading
from control_api.database import Sessions
from control_api.monitors import actions as monitors
from control_api.projects import keys
from control_api.refusals import Refused
from storage_backends.column_store.interface import ColumnStore
from storage_backends.key_directory.interface import KeyDirectory


@dataclass(frozen=True, slots=True)
class Engines:
    """What an action works on."""

    sessions: Sessions
    directory: KeyDirectory
    store: ColumnStore | None = None
    """What was taken in; None where it cannot be reached from here."""

    def column_store(self) -> ColumnStore:
        """Raises `Refused` where it is not set."""
        if self.store is None:
            raise Refused("Set PHAROS_CLICKHOUSE_URL as well: what was taken in lies there.")
        return self.store


Wanted = dict[str, Any]
Action = Callable[[Engines, Wanted, datetime], Awaitable[Any]]
"""Gets the parameters as they came, gives a document. Raises `Refused`, `ValueError` and `KeyError` for bad ones."""


def _number(wanted: Wanted, name: str) -> int:
    """An ID. Raises `Refused` for one that no column holds."""
    number = int(wanted[name])
    if not 0 < number < 2**31:
        raise Refused(f"{number} is no ID.")
    return number


async def _list_keys(engines: Engines, wanted: Wanted, now: datetime) -> Any:
    return list(await keys.list_keys(engines.sessions))


async def _create_key(engines: Engines, wanted: Wanted, now: datetime) -> Any:
    return await keys.create_key(engines.sessions, engines.directory, wanted.get("environment_id"), now)


async def _revoke_key(engines: Engines, wanted: Wanted, now: datetime) -> Any:
    return await keys.revoke_key(engines.sessions, engines.directory, _number(wanted, "id"), now)


async def _list_heartbeats(engines: Engines, wanted: Wanted, now: datetime) -> Any:
    return list(await monitors.list_heartbeats(engines.sessions))


async def _show_heartbeat(engines: Engines, wanted: Wanted, now: datetime) -> Any:
    return await monitors.show_heartbeat(engines.sessions, _number(wanted, "id"))


async def _create_heartbeat(engines: Engines, wanted: Wanted, now: datetime) -> Any:
    return await monitors.add_heartbeat(engines.sessions, engines.directory, wanted, now)


async def _pause_heartbeat(engines: Engines, wanted: Wanted, now: datetime) -> Any:
    return await monitors.pause_heartbeat(
        engines.sessions, _number(wanted, "id"), bool(wanted["paused"]), now
    )


async def _list_queues(engines: Engines, wanted: Wanted, now: datetime) -> Any:
    return list(await monitors.list_queues(engines.sessions, now))


async def _show_queue(engines: Engines, wanted: Wanted, now: datetime) -> Any:
    return await monitors.show_queue(engines.sessions, _number(wanted, "id"), now)


async def _create_queue(engines: Engines, wanted: Wanted, now: datetime) -> Any:
    return await monitors.add_queue(engines.sessions, engines.directory, wanted, now)


async def _create_monitor_key(engines: Engines, wanted: Wanted, now: datetime) -> Any:
    return await monitors.add_key(
        engines.sessions, engines.directory, str(wanted["kind"]), _number(wanted, "id"), now
    )


async def _revoke_monitor_key(engines: Engines, wanted: Wanted, now: datetime) -> Any:
    return await monitors.revoke_monitor_key(
        engines.sessions,
        engines.directory,
        str(wanted["kind"]),
        _number(wanted, "id"),
        _number(wanted, "key_id"),
        now,
    )


async def _list_traces(engines: Engines, wanted: Wanted, now: datetime) -> Any:
    return await reading.list_traces(engines.column_store(), wanted, now)


async def _show_trace(engines: Engines, wanted: Wanted, now: datetime) -> Any:
    return await reading.show_trace(engines.column_store(), wanted)


async def _list_logs(engines: Engines, wanted: Wanted, now: datetime) -> Any:
    return await reading.list_logs(engines.column_store(), wanted, now)


async def _list_issues(engines: Engines, wanted: Wanted, now: datetime) -> Any:
    return await reading.list_issues(engines.column_store(), engines.sessions, wanted, now)


ACTIONS: Mapping[str, Action] = {
    "keys/list": _list_keys,
    "keys/create": _create_key,
    "keys/revoke": _revoke_key,
    "heartbeats/list": _list_heartbeats,
    "heartbeats/show": _show_heartbeat,
    "heartbeats/create": _create_heartbeat,
    "heartbeats/pause": _pause_heartbeat,
    "queues/list": _list_queues,
    "queues/show": _show_queue,
    "queues/create": _create_queue,
    "monitor-keys/create": _create_monitor_key,
    "monitor-keys/revoke": _revoke_monitor_key,
    "traces/list": _list_traces,
    "traces/show": _show_trace,
    "logs/list": _list_logs,
    "issues/list": _list_issues,
}
