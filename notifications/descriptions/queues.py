"""Descriptions of queues that are too slow or too long, and of their workers."""

import re
from collections.abc import Mapping
from typing import Any

from notifications.descriptions.interface import Description, Subject
from notifications.descriptions.read_facts import cut_title, read_number, read_text, read_time
from notifications.descriptions.thresholds import (
    choose_verb,
    explain_limits,
    is_removed,
    list_figures,
    write_fact,
)

_UUID = re.compile("[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_WORKER_ENDS = {
    "reports": "reports again",
    "stopped": "has stopped",
    "forgotten": "is no longer expected",
    "removed": "is no longer watched",
}


def describe(subject: Subject) -> Description:
    """Return the description of an event of a queue."""
    if subject.kind == "queue.worker_lost":
        return _describe_worker(subject)
    facts, is_resolved = subject.facts, subject.state == "resolved"
    queue = read_text(facts, "target", 100) or subject.subject
    value, threshold = write_fact(facts, "value"), write_fact(facts, "threshold")
    if subject.kind == "queue.size":
        name, normal = "pending jobs", "is no longer too long"
        predicate = f"has {value}" if value else "has too many jobs"
    else:
        name, normal = "oldest job", "is no longer too slow"
        predicate = f"has a job that has waited for {value}" if value else "has a job that waits too long"
    if is_removed(facts):
        normal = "is no longer watched for this"
    details = []
    if threshold is not None and not is_resolved:
        details.append(f"That is {choose_verb(facts)} the threshold of {threshold}.")
    details += explain_limits(facts, is_resolved=is_resolved)
    return Description(
        title=cut_title(f"Queue {queue} {normal if is_resolved else predicate}"),
        details=details,
        figures=list_figures(facts, name),
        labels=_labels(facts, queue),
        command=_command(facts),
    )


def _describe_worker(subject: Subject) -> Description:
    facts, is_resolved = subject.facts, subject.state == "resolved"
    queue = read_text(facts, "queue", 100) or "a queue"
    worker = read_text(facts, "worker", 40) or subject.subject
    # A worker reports no other name than its ID. The first group of a UUID tells the workers of a queue apart.
    name = worker.partition("-")[0] if _UUID.fullmatch(worker) else worker
    details = []
    if (last := read_time(facts, "last_report_ms")) is not None:
        details.append(f"Its last report was at {last}.")
    if is_resolved:
        predicate = _WORKER_ENDS.get(str(facts.get("reason")), "reports again")
    else:
        predicate = "stopped reporting"
        if (status := read_text(facts, "status", 20)) is not None:
            details.append(f"It was {status}, and did not report that it stops.")
        if (lost := read_number(facts, "lost")) is not None and lost > 1:
            details.append(f"{lost:,} workers of the queue were lost in the last hour.")
    return Description(
        title=cut_title(f"Worker {name} of queue {queue} {predicate}"),
        details=details,
        labels={"queue": queue, "worker": worker},
        command=_command(facts),
    )


def _labels(facts: Mapping[str, Any], queue: str) -> dict[str, str]:
    name = read_text(facts, "name", 100)
    return {"queue": queue} if name is None else {"queue": queue, "threshold": name}


def _command(facts: Mapping[str, Any]) -> str | None:
    number = read_number(facts, "queue_id")
    return "pharos queues" if number is None else f"pharos queue show {number}"
