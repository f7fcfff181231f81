"""Reads the deploy window of an environment."""

from typing import Any

from control_domain.configurations.documents.read_settings import obey, read_timezone
from control_domain.documents.field import Field
from control_domain.environments import windows
from control_domain.environments.windows import DAYS

_KEYS = ("days", "from", "to", "timezone")
_LONGEST = 20


def read_window(field: Field) -> dict[str, Any] | None:
    """The window in its canonical form; null: deploys are taken at all times."""
    if field.is_null:
        return None
    members = field.known_members(_KEYS, needed=("days", "from", "to"))
    if members is None or not {"days", "from", "to"} <= members.keys():
        return None
    days = [day.choice(DAYS) for day in members["days"].items(len(DAYS), least=1) or ()]
    given = {"days": days, "from": _read_time(members["from"]), "to": _read_time(members["to"])}
    if "timezone" in members:
        given["timezone"] = read_timezone(members["timezone"])
    if not days or None in days or None in given.values():
        return None
    return windows.read_window(given).to_document()


def _read_time(field: Field) -> str | None:
    given = field.text(_LONGEST)
    if given is None:
        return None
    # A window of that time alone.
    whole = {"days": list(DAYS), "from": given, "to": given}
    return given if obey(field, windows.read_window, whole) else None
