"""The object of an incident, which a page or a program opens for more details."""

import json
from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta

from control_domain.tables.notifications import AlertIncident

TargetType = Literal["heartbeat", "queue", "deployment", "exception", "service", "metric", "site"]

# The fact that holds the ID of the object, by family.
_FACTS: dict[str, tuple[TargetType, str]] = {
    "queue": ("queue", "queue_id"),
    "deployment": ("deployment", "number"),
    "process": ("deployment", "number"),
    "preview": ("deployment", "number"),
    "exception": ("exception", "group"),
    "service": ("service", "target"),
    "metric": ("metric", "target"),
    "site": ("site", "site_id"),
}


class IncidentTarget(TypedDict):
    """The object of an incident."""

    type: TargetType
    id: Annotated[
        str,
        Meta(
            description="The number of the object; the name of a service or a metric; the group of an exception."
        ),
    ]


def find_target(incident: AlertIncident) -> IncidentTarget | None:
    """Return the object that the incident is about; None if its facts do not name an object."""
    family = incident.kind.partition(".")[0]
    if family == "heartbeat":
        return {"type": "heartbeat", "id": incident.subject}
    if family not in _FACTS:
        return None
    target, name = _FACTS[family]
    facts: dict[str, Any] = json.loads(incident.facts)
    value = facts.get(name)
    is_known = isinstance(value, (int, str)) and not isinstance(value, bool) and value != ""
    return {"type": target, "id": str(value)} if is_known else None
