"""Applies alert events to the open incidents. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from pipeline_contracts.alert_kinds import ALERT_KINDS, SEVERITIES, EventState, Severity

DEPLOYMENT_BEFORE = "deployment_before"
"""Name of a fact that incidents have in addition to those of their events: the last deployment before the first
event."""

BEFORE_END = "before_end"
"""Name of a fact of ended incidents: the former values of the facts that the resolution replaced."""

Scope = tuple[int, int | None, int | None]
"""Account, project and environment."""


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
        """The `open_key` of its incident."""
        account, _, environment = self.scope
        return f"{account}/{environment or 0}/{ALERT_KINDS[self.kind].family}/{self.subject}"

    @property
    def severity(self) -> Severity:
        """The severity of the kind, unless the facts name another one, as those of thresholds do."""
        named = self.facts.get("severity")
        return cast(Severity, named) if named in SEVERITIES else ALERT_KINDS[self.kind].severity


Change = Literal["opened", "escalated", "resolved", "info", "seen", "passed"]
"""`seen` changes only the facts. `passed`: the incident opened and ended within one batch of events, so no message was
sent."""


@dataclass(slots=True)
class Incident:
    """An incident with the net change made by the events."""

    first: Event
    """The event that opened it."""
    last: Event
    """The last event, which has the facts of the incident."""
    change: Change
    incident_id: int | None = None
    """The number of its row; None for a new incident."""


def apply_events(events: Iterable[Event], open_incidents: Mapping[str, Incident]) -> list[Incident]:
    """Apply the events in order; return the changed incidents, with new ones in the order of their events.

    `open_incidents` maps keys to open incidents, and is modified. A repeated `firing` of the same kind only replaces
    the facts; another kind of the same family escalates the incident. `resolved` without an open incident is ignored.
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
    """Return the facts of an ended incident. The incident's facts are kept, because a resolution may have fewer, and
    its message names the subject and the figures as the incident did."""
    replaced = {name: facts.get(name) for name, value in end.items() if facts.get(name) != value}
    return {**facts, **end, BEFORE_END: replaced}
