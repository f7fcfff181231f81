"""What the descriptions of all conditions with a value and a threshold share."""

from collections.abc import Mapping
from typing import Any

from notifications.descriptions.read_facts import read_number, read_time, write_seconds
from notifications.message import Figure
from notifications.render.words import write_value

_ENDED = {
    "removed": "The condition was removed, or no longer applies.",
    "resolved": "Somebody resolved it.",
    "ignored": "Somebody ignored it.",
}


def read_float(facts: Mapping[str, Any], name: str) -> float | None:
    """Return the fact as a number. None if it is missing."""
    value = facts.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def is_removed(facts: Mapping[str, Any]) -> bool:
    """Return True if the incident ended because its condition no longer exists."""
    return facts.get("reason") == "removed"


def read_unit(facts: Mapping[str, Any]) -> str:
    """Return the unit of the value. Empty if the value has no unit."""
    unit = facts.get("unit")
    return unit if isinstance(unit, str) else ""


def list_figures(facts: Mapping[str, Any], name: str, unit: str | None = None) -> list[Figure]:
    """Return the value and its threshold as a figure with this name."""
    value = read_float(facts, "value")
    if value is None or is_removed(facts):
        return []
    figure_unit = read_unit(facts) if unit is None else unit
    return [
        Figure(
            name=name,
            value=round(value, 3),
            unit=figure_unit,
            threshold=read_float(facts, "threshold"),
        )
    ]


def write_fact(facts: Mapping[str, Any], name: str) -> str | None:
    """Return a fact with the unit of the value, such as `10 min`. None if the fact is missing."""
    value = read_float(facts, name)
    return None if value is None else write_value(round(value, 3), read_unit(facts))


def explain_limits(facts: Mapping[str, Any], *, is_resolved: bool) -> list[str]:
    """Return sentences that say why the incident opened or ended."""
    reason = facts.get("reason")
    if is_resolved:
        if isinstance(reason, str) and reason in _ENDED:
            return [_ENDED[reason]]
        recovery = write_fact(facts, "recovery")
        return [] if recovery is None else [f"It has reached the recovery value of {recovery}."]
    details = []
    pending, since = read_float(facts, "pending_seconds"), read_time(facts, "since_ms")
    if pending and since is not None:
        details.append(f"It has been so since {since}, for longer than {write_seconds(pending)}.")
    recovery = write_fact(facts, "recovery")
    if recovery is not None and recovery != write_fact(facts, "threshold"):
        details.append(f"It ends at {recovery}.")
    return details


def write_window(facts: Mapping[str, Any]) -> str:
    """Return a text such as ` in the last 5 min`. Empty if the condition has no window."""
    seconds = read_number(facts, "window_seconds")
    return "" if seconds is None else f" in the last {write_seconds(seconds)}"


def choose_verb(facts: Mapping[str, Any]) -> str:
    """Return the verb that says on which side of the threshold the value is bad."""
    return "over" if facts.get("is_above", True) else "under"
