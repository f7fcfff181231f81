"""Why an operator does something, in words for others to read."""

from collections.abc import Mapping
from typing import Any

from control_domain.refusals import Refused

_LONGEST = 500


def read_reason(params: Mapping[str, Any]) -> str:
    """`reason`. Raises `Refused`."""
    reason = str(params.get("reason") or "").strip()
    if not 1 <= len(reason) <= _LONGEST or not reason.isprintable():
        raise Refused(f"A reason has 1 to {_LONGEST} printable characters: give one with --reason.")
    return reason
