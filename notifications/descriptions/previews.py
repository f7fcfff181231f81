"""Describes previews that are ready."""

from notifications.descriptions.deployments import (
    describe_duration,
    describe_origin,
    list_figures,
    list_labels,
)
from notifications.descriptions.interface import Description, Subject
from notifications.descriptions.read_facts import cut_title, read_number, read_text


def describe(subject: Subject) -> Description:
    """Return the description of an event of a preview."""
    facts = subject.facts
    branch = read_text(facts, "ref", 100)
    address, number = read_text(facts, "address", 300), read_number(facts, "number")
    details = [f"It is at {address}"] if address else []
    details += describe_origin(facts)
    if (took := describe_duration(facts)) is not None:
        details.append(took)
    labels = list_labels(facts)
    return Description(
        title=cut_title(f"The preview of {branch} is ready" if branch else "A preview is ready"),
        details=details,
        figures=list_figures(facts),
        labels={**labels, **({"branch": branch} if branch else {})},
        command=None if number is None else f"pharos logs {number}",
    )
