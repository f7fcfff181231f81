"""Descriptions of deployments that failed, wait for approval, or succeeded."""

from collections.abc import Mapping
from typing import Any

from notifications.descriptions.interface import Description, Subject
from notifications.descriptions.read_facts import cut_title, read_number, read_text, write_seconds
from notifications.message import Figure

_SHORT_COMMIT_LENGTH = 7
_PREDICATES = {
    ("deployment.failed", "firing"): "failed",
    ("deployment.failed", "resolved"): "succeeded after a failed one",
    ("deployment.succeeded", "info"): "succeeded",
    ("deployment.awaiting_approval", "firing"): "waits for approval",
    ("deployment.awaiting_approval", "resolved"): "no longer waits for approval",
}
_TRIGGERS = {
    "api": "a person or a program",
    "push": "a push",
    "pull_request": "a pull request",
    "rollback": "a rollback",
    "promotion": "a promotion",
}
_DECISIONS = {
    "queued": "It was approved.",
    "rejected": "It was rejected.",
    "canceled": "It was canceled.",
}


def describe(subject: Subject) -> Description:
    """Return the description of an event of a deployment."""
    facts = subject.facts
    number = read_number(facts, "number")
    name = "A deployment" if number is None else f"Deployment {number}"
    if facts.get("reason") == "removed" and subject.state == "resolved":
        title = f"The environment of {name[:1].lower()}{name[1:]} was removed"
    else:
        title = f"{name} {_PREDICATES.get((subject.kind, subject.state), 'changed')}"
    return Description(
        title=cut_title(title),
        details=_details(subject),
        figures=list_figures(facts),
        labels=list_labels(facts),
        command=_choose_command(subject, number),
    )


def _details(subject: Subject) -> list[str]:
    facts, details = subject.facts, []
    if subject.state == "firing" and (reason := read_text(facts, "reason", 500)) is not None:
        details.append(reason)
    is_decided = subject.kind == "deployment.awaiting_approval" and subject.state == "resolved"
    if is_decided and (decision := _DECISIONS.get(str(facts.get("status")))) is not None:
        details.append(decision)
    return [*details, *describe_origin(facts)]


def describe_origin(facts: Mapping[str, Any]) -> list[str]:
    """Return sentences that say which commit was deployed and what started the deployment."""
    details = []
    revision, ref = read_text(facts, "revision", 64), read_text(facts, "ref", 200)
    subject, author = read_text(facts, "commit_subject", 200), read_text(facts, "commit_author", 200)
    if revision is not None:
        commit = f"Commit {revision[:_SHORT_COMMIT_LENGTH]}" + (f" of {ref}" if ref else "")
        by = f" by {author}" if author else ""
        details.append(f"{commit}{by}: {subject}" if subject else f"{commit}{by}.")
    elif ref is not None:
        details.append(f"From {ref}.")
    trigger, person = _TRIGGERS.get(str(facts.get("trigger"))), read_text(facts, "asked_by", 200)
    note = read_text(facts, "note", 300)
    if trigger is not None:
        started = (
            f"Started by {person}" if facts.get("trigger") == "api" and person else f"Started by {trigger}"
        )
        if person and facts.get("trigger") in ("rollback", "promotion"):
            started += f" of {person}"
        details.append(f"{started}: {note}." if note else f"{started}.")
    return details


def list_figures(facts: Mapping[str, Any]) -> list[Figure]:
    """Return the duration of the deployment. Empty if it is not known."""
    seconds = read_number(facts, "duration_seconds")
    return [] if seconds is None else [Figure(name="duration", value=seconds, unit="s")]


def list_labels(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels that identify the deployment and its commit."""
    labels = {"deployment": read_number(facts, "number"), "revision": read_text(facts, "revision", 64)}
    return {name: str(value) for name, value in labels.items() if value is not None}


def _choose_command(subject: Subject, number: int | None) -> str | None:
    if number is None:
        return None
    if subject.kind == "deployment.awaiting_approval" and subject.state == "firing":
        return f"pharos approve deployment {number}"
    return f"pharos logs {number}"


def describe_duration(facts: Mapping[str, Any]) -> str | None:
    """Return a sentence such as `It took 2 min 10 s.`. None if the duration is not known."""
    seconds = read_number(facts, "duration_seconds")
    return None if seconds is None else f"It took {write_seconds(seconds)}."
