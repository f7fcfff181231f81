"""Finds the trace named by an argument."""

import re
from typing import Final

from operator_cli.api.client import Api
from operator_cli.api.names import Environment
from operator_cli.errors import CommandFailed, NoSuchName

_ID: Final = re.compile("[0-9a-f]{32}")
_BEGINNING: Final = re.compile("[0-9a-f]{6,31}")
_SEARCHED: Final = 1000
_SINCE: Final = "1d"


def find_trace(api: Api, environment: Environment, name: str) -> str:
    """Return the ID of a trace. The beginning of an ID is searched among the newest traces of the last day. Raises
    `CommandFailed`."""
    name = name.lower()
    if _ID.fullmatch(name):
        return name
    if not _BEGINNING.fullmatch(name):
        raise NoSuchName(
            f"{name!r} is not a trace ID, which has 32 hexadecimal digits. `pharos traces list` shows their beginnings."
        )
    traces = api.get_all("environments", environment.id, "traces", query={"since": _SINCE}, limit=_SEARCHED)
    found: set[str] = {trace["id"] for trace in traces if trace["id"].startswith(name)}
    if len(found) > 1:
        raise CommandFailed(f"{name!r} means several traces. Name one of them: {', '.join(sorted(found))}.")
    if not found:
        raise NoSuchName(
            f"No trace of {environment.path} begins with {name!r} among the newest {_SEARCHED:,} of the last day. "
            "`pharos traces list --wide` shows whole IDs, which are found at any age."
        )
    return found.pop()
