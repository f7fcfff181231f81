"""Descriptions of services whose error rate or latency is over a threshold."""

from notifications.descriptions.interface import Description, Subject
from notifications.descriptions.read_facts import cut_title, read_text
from notifications.descriptions.thresholds import (
    choose_verb,
    explain_limits,
    is_removed,
    list_figures,
    write_fact,
    write_window,
)

_FIGURES = {"service.error_rate": "error rate", "service.latency": "p95 latency"}


def describe(subject: Subject) -> Description:
    """Return the description of an event of a service."""
    facts, is_resolved = subject.facts, subject.state == "resolved"
    service = read_text(facts, "target", 100) or subject.subject
    figure = _FIGURES.get(subject.kind, "value")
    value, threshold = write_fact(facts, "value"), write_fact(facts, "threshold")
    if is_removed(facts):
        title = f"The {figure} of {service} is no longer watched"
    elif is_resolved:
        title = f"The {figure} of {service} has recovered" + (f": {value}" if value else "")
    else:
        title = f"The {figure} of {service} is {value or 'beyond its threshold'}"
    details = []
    if value is not None and threshold is not None and not is_resolved:
        details.append(f"{value}{write_window(facts)}: {choose_verb(facts)} the threshold of {threshold}.")
    details += explain_limits(facts, is_resolved=is_resolved)
    labels = {"service": service}
    if (name := read_text(facts, "name", 100)) is not None:
        labels["threshold"] = name
    environment = read_text(facts, "environment", 60)
    return Description(
        title=cut_title(title),
        details=details,
        figures=list_figures(facts, figure),
        labels=labels,
        command="pharos services list" + (f" --environment {environment}" if environment else ""),
    )
