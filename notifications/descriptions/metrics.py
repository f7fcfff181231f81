"""Describes metrics that are beyond a threshold."""

import shlex

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

_AGGREGATIONS = {
    "avg": "average",
    "min": "minimum",
    "max": "maximum",
    "sum": "sum",
    "last": "last value",
}


def describe(subject: Subject) -> Description:
    """Return the description of an event of a metric."""
    facts, is_resolved = subject.facts, subject.state == "resolved"
    metric = read_text(facts, "target", 120) or subject.subject
    service = read_text(facts, "service", 100)
    aggregation = _AGGREGATIONS.get(str(facts.get("aggregation")), "value")
    value, threshold = write_fact(facts, "value"), write_fact(facts, "threshold")
    name = f"Metric {metric}" + (f" of {service}" if service else "")
    if is_removed(facts):
        title = f"{name} is no longer watched"
    elif is_resolved:
        title = f"{name} has recovered" + (f": {value}" if value else "")
    else:
        title = f"{name} is {choose_verb(facts)} its threshold" + (f": {value}" if value else "")
    details = []
    if value is not None and threshold is not None and not is_resolved:
        details.append(
            f"The {aggregation}{write_window(facts)} is {value}, "
            f"{choose_verb(facts)} the threshold of {threshold}."
        )
    details += explain_limits(facts, is_resolved=is_resolved)
    labels = {"metric": metric}
    if service is not None:
        labels["service"] = service
    if (rule := read_text(facts, "name", 100)) is not None:
        labels["threshold"] = rule
    environment = read_text(facts, "environment", 60)
    command = f"pharos metrics series {shlex.quote(metric)}"
    return Description(
        title=cut_title(title),
        details=details,
        figures=list_figures(facts, aggregation),
        labels=labels,
        command=command + (f" --environment {environment}" if environment else ""),
    )
