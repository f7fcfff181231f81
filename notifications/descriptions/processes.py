"""Descriptions of processes that crash repeatedly."""

from notifications.descriptions.interface import Description, Subject
from notifications.descriptions.read_facts import (
    count_noun,
    cut_title,
    read_number,
    read_text,
    write_seconds,
)
from notifications.message import Figure

_ENDS = {
    "stable": "runs again",
    "replaced": "was replaced",
    "removed": "was removed",
    "stopped": "was stopped",
}


def describe(subject: Subject) -> Description:
    """Return the description of an event of a process."""
    facts = subject.facts
    process = read_text(facts, "process", 30) or subject.subject
    number, restarts = read_number(facts, "deployment"), read_number(facts, "restarts")
    last_exit, within = read_text(facts, "last_exit", 300), read_number(facts, "within_seconds")
    details = []
    if subject.state == "resolved":
        predicate = _ENDS.get(str(facts.get("reason")), "runs again")
        if predicate == "runs again" and (steady := read_number(facts, "steady_seconds")) is not None:
            details.append(f"It has not ended for {write_seconds(steady)}.")
    else:
        predicate = "crashes again and again"
        if restarts is not None and within is not None:
            often = count_noun(restarts, "time")
            details.append(f"It was restarted {often} within {write_seconds(within)}.")
        if last_exit is not None:
            details.append(f"Last exit: {last_exit.rstrip('.')}.")
    if number is not None:
        details.append(f"It belongs to deployment {number}.")
    figures = (
        [Figure(name="restarts", value=restarts, threshold=read_number(facts, "threshold"))]
        if restarts is not None and subject.state != "resolved"
        else []
    )
    environment = read_text(facts, "environment", 200)
    return Description(
        title=cut_title(f"Process {process} {predicate}"),
        details=details,
        figures=figures,
        labels={"process": process, **({} if number is None else {"deployment": str(number)})},
        command=None if environment is None else f"pharos logs {environment}",
    )
