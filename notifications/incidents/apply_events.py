"""Applies alert events to the open incidents. Does no I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from pipeline_contracts.alert_kinds import ALERT_KINDS, SEVERITIES, EventState, Severity

DEPLOYMENT_BEFORE = "deployment_before"
"""The name of a fact that incidents have in addition to the facts of their events: the last deployment before the
first event."""

BEFORE_END = "before_end"
"""The name of a fact of ended incidents: the earlier values of facts that the resolution has replaced."""

Scope = tuple[int, int | None, int | None]
"""The account, the project and the environment of an event."""


@dataclass(frozen=True, slots=True)
class Event:
    """An alert event. `at_ms` is in milliseconds since 1970."""

    scope: Scope
    kind: str
    subject: str
    state: EventState
    at_ms: int
    facts: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Return the `open_key` of the event's incident."""
        account, _, environment = self.scope
        return f"{account}/{environment or 0}/{ALERT_KINDS[self.kind].family}/{self.subject}"

    @property
    def severity(self) -> Severity:
        """Return the severity of the event's kind. If the facts name another severity, as facts of thresholds do,
        return that."""
        named = self.facts.get("severity")
        return cast(Severity, named) if named in SEVERITIES else ALERT_KINDS[self.kind].severity


Change = Literal["opened", "escalated", "resolved", "info", "seen", "passed"]
"""What happened to an incident. `seen`: only its facts have changed. `passed`: it opened and ended within one batch of
events, so no message was sent."""


@dataclass(slots=True)
class Incident:
    """An incident, and how the events have changed it."""

    first: Event
    """The event that opened the incident."""
    last: Event
    """The last event. It has the facts of the incident."""
    change: Change
    incident_id: int | None = None
    """The number of the incident's row. None for a new incident."""


def apply_events(events: Iterable[Event], open_incidents: Mapping[str, Incident]) -> list[Incident]:
    """Apply the events in order. Return the incidents that have changed. New incidents are in the order of their
    events.

    `open_incidents`: open incidents by key, which this function changes. A repeated `firing` event of the same kind
    only replaces the facts. An event of another kind of the same family escalates the incident. A `resolved` event
    without an open incident is ignored.
    """
    present = dict(open_incidents)
    changed: dict[int, Incident] = {}
    for event in events:
        incident = present.get(event.key)
        if event.state == "info":
            incident = Incident(event, event, "info")
        elif event.state == "resolved":
            if incident is None:
                continue
            del present[event.key]
            incident.last = replace(
                event, kind=incident.last.kind, facts=_end_facts(incident.last.facts, event.facts)
            )
            incident.change = "passed" if incident.incident_id is None else "resolved"
        elif incident is None:
            incident = Incident(event, event, "opened")
            present[event.key] = incident
        else:
            _repeat(incident, event)
        changed.setdefault(id(incident), incident)
    return list(changed.values())


def _repeat(incident: Incident, event: Event) -> None:
    if incident.change == "seen" and event.kind != incident.last.kind:
        incident.change = "escalated"
    facts = incident.last.facts
    kept = {DEPLOYMENT_BEFORE: facts[DEPLOYMENT_BEFORE]} if DEPLOYMENT_BEFORE in facts else {}
    incident.last = replace(event, facts={**event.facts, **kept})


def _end_facts(facts: Mapping[str, Any], end: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of an ended incident. The facts of the open incident are kept: a resolution may have fewer
    facts, but its message must name the same subject and figures."""
    replaced = {name: facts.get(name) for name, value in end.items() if facts.get(name) != value}
    return {**facts, **end, BEFORE_END: replaced}
