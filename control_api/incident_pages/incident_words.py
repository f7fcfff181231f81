"""Describes incidents for people."""

import json
from typing import Any, cast

from control_domain.notifications.incidents import FoundIncident
from control_domain.tables.notifications import AlertIncident
from notifications.descriptions.all_families import describe, describe_beginning_of
from notifications.descriptions.interface import Description, Subject
from pipeline_contracts.alert_kinds import EventState


def read_facts(found: FoundIncident) -> dict[str, Any]:
    """Return the stored facts of the incident."""
    facts: dict[str, Any] = json.loads(found.incident.facts)
    return facts


def describe_incident(found: FoundIncident) -> Description:
    """Return title, details, figures, labels and command of the incident."""
    return describe_row(found.incident)


def describe_row(incident: AlertIncident) -> Description:
    """Return title, details, figures, labels and command of the row of an incident."""
    return describe(_read_subject(incident))


def describe_beginning(incident: AlertIncident) -> Description:
    """Return the description that the incident had before its end."""
    return describe_beginning_of(_read_subject(incident))


def _read_subject(incident: AlertIncident) -> Subject:
    state = cast(EventState, incident.state)
    return Subject(incident.kind, state, incident.subject, json.loads(incident.facts))
