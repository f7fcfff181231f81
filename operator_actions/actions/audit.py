"""The audit log as an operator reads it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from control_domain.audit import list_newest_entries
from control_domain.refusals import Refused
from operator_actions.actions.engines import Action, Engines, Params

_LIMIT = 50
_MOST = 1000


async def _list_entries(engines: Engines, params: Params, now: datetime) -> Sequence[dict[str, Any]]:
    """The newest entries, newest first. `params`: limit (50), subject (a kind and an ID, or the ID alone)."""
    limit = _LIMIT if params.get("limit") is None else int(params["limit"])
    if not 1 <= limit <= _MOST:
        raise Refused(f"{limit} entries cannot be shown: ask for 1 to {_MOST:,} with --limit.")
    async with engines.sessions() as session:
        return await list_newest_entries(session, limit, params.get("subject"))


ACTIONS: Mapping[str, Action] = {"audit/list": _list_entries}
