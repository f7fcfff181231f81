"""Describes problems of Pharos itself."""

from collections.abc import Mapping
from typing import Any

from notifications.descriptions.interface import Description, Subject
from notifications.descriptions.read_facts import (
    count_noun,
    cut_title,
    read_number,
    read_text,
    read_time,
    write_seconds,
)
from notifications.descriptions.thresholds import explain_limits, list_figures, read_float, write_fact
from notifications.message import Figure

_GIB = 2**30
_BLIND = {
    "heartbeats": "No process evaluated heartbeats. Their deadlines moved by this time.",
    "alert scan": "Pharos was not running, or its control plane was not.",
    "column store": "The column store could not be read.",
}


def describe(subject: Subject) -> Description:
    """Return the description of an event about the installation."""
    is_resolved = subject.state == "resolved"
    describe_kind = _KINDS.get(subject.kind)
    if describe_kind is None:
        return _describe_statuses(subject)
    title, details, figures, command = describe_kind(subject.facts, is_resolved)
    return Description(title=cut_title(title), details=details, figures=figures, command=command)


_Parts = tuple[str, list[str], list[Figure], str | None]


def _describe_lag(facts: Mapping[str, Any], is_resolved: bool) -> _Parts:
    figures = list_figures(facts, "lag", "s")
    if is_resolved:
        return "Pharos processes received records in time again", [], figures, None
    value = write_fact(facts, "value")
    title = "Received records wait too long to be processed" + (f": {value}" if value else "")
    details = [
        "What was accepted is safe in the log. Until it is processed, pages and alerts show an earlier state."
    ]
    return title, details + explain_limits(facts, is_resolved=False), figures, None


def _describe_dead_letters(facts: Mapping[str, Any], is_resolved: bool) -> _Parts:
    if is_resolved:
        return "No more records became dead letters", [], [], "pharos dead-letters list"
    details = [
        "They were accepted, and can never be stored as they are. They stay in the log with their reasons."
    ]
    return "Records could not be processed", details, [], "pharos dead-letters list"


def _describe_disk(facts: Mapping[str, Any], is_resolved: bool) -> _Parts:
    disk = read_text(facts, "disk", 60) or "The disk"
    used, free = read_float(facts, "value"), read_float(facts, "free_bytes")
    figures = list_figures(facts, "used", "%")
    share = "" if used is None else f": {used:.0f}% used"
    if is_resolved:
        return f"Disk of Pharos ({disk}) has space again{share}", [], figures, None
    details = [] if free is None else [f"{free / _GIB:,.1f} GiB are free."]
    details.append("When the disk is full, nothing can be stored.")
    return f"Disk of Pharos ({disk}) is nearly full{share}", details, figures, None


def _describe_backup(facts: Mapping[str, Any], is_resolved: bool) -> _Parts:
    command = "pharos backup list"
    if is_resolved:
        return "A backup was made again", [], [], command
    error = read_text(facts, "error", 300)
    details = [] if error is None else [error]
    details.append("The backup is retried after an hour, or earlier if backups are more frequent.")
    return "A scheduled backup failed", details, [], command


def _describe_blind(facts: Mapping[str, Any], is_resolved: bool) -> _Parts:
    begin, end = read_time(facts, "from_ms"), read_time(facts, "to_ms")
    title = "Monitoring was blind" + (f" from {begin} to {end}" if begin and end else " for a while")
    details = [_BLIND.get(str(facts.get("what")), "Nothing was evaluated in this time.")]
    heartbeats = read_number(facts, "heartbeats")
    if heartbeats:
        details.append(f"{count_noun(heartbeats, 'heartbeat')} may have missed a signal.")
    details.append("In this time no condition was evaluated, so none was opened or ended.")
    from_ms, to_ms = read_number(facts, "from_ms"), read_number(facts, "to_ms")
    figures = []
    if from_ms is not None and to_ms is not None:
        figures.append(Figure(name="duration", value=round((to_ms - from_ms) / 1000), unit="s"))
        details.insert(0, f"It lasted {write_seconds((to_ms - from_ms) / 1000)}.")
    return title, details, figures, None


def _describe_statuses(subject: Subject) -> Description:
    facts, is_resolved = subject.facts, subject.state == "resolved"
    host = read_text(facts, "host", 30) or "A Git host"
    repository, error = read_text(facts, "repository", 150), read_text(facts, "error", 300)
    predicate = "accepts commit statuses again" if is_resolved else "refuses commit statuses"
    labels = {"host": host} if repository is None else {"host": host, "repository": repository}
    details = []
    if not is_resolved:
        details = [] if error is None else [error]
        details.append("Deployments go on; only their statuses at the host are missing.")
    return Description(
        title=cut_title(f"{host} {predicate}" + (f" of {repository}" if repository else "")),
        details=details,
        labels=labels,
    )


_KINDS = {
    "platform.consumer_lag": _describe_lag,
    "platform.dead_letters": _describe_dead_letters,
    "platform.disk": _describe_disk,
    "platform.backup": _describe_backup,
    "platform.blind": _describe_blind,
}
