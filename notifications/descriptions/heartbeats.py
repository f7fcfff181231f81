"""Descriptions of heartbeats that are late, down, or up again."""

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
from notifications.message import Figure

_ENDED_BY_PEOPLE = {
    "paused": ("is paused", "Somebody paused it, so its runs are no longer evaluated."),
    "resumed": ("waits for its next signal", "Somebody resumed it: it waits for its next signal."),
    "removed": ("was removed", "Somebody removed the heartbeat."),
}


def describe(subject: Subject) -> Description:
    """Return the description of an event of a heartbeat."""
    facts = subject.facts
    name = read_text(facts, "heartbeat", 100) or subject.subject
    if subject.state == "resolved":
        predicate, details = _describe_end(facts)
    elif subject.kind == "heartbeat.late":
        predicate, details = "is late", _describe_late(facts)
    else:
        predicate, details = "is down", _describe_down(facts)
    if (success := read_time(facts, "last_success_ms")) is not None:
        details.append(f"Its last success was at {success}.")
    elif subject.state != "resolved":
        details.append("No run has succeeded yet.")
    if schedule := _describe_schedule(facts):
        details.append(schedule)
    return Description(
        title=cut_title(f"Heartbeat {name} {predicate}"),
        details=details,
        figures=_figures(facts) if subject.state == "firing" else [],
        labels={"heartbeat": name},
        command=None if facts.get("reason") == "removed" else f"pharos heartbeat show {subject.subject}",
    )


def _describe_end(facts: Mapping[str, Any]) -> tuple[str, list[str]]:
    reason = facts.get("reason")
    if isinstance(reason, str) and reason in _ENDED_BY_PEOPLE:
        predicate, detail = _ENDED_BY_PEOPLE[reason]
        return predicate, [detail]
    since = read_time(facts, "since_ms")
    if facts.get("state") == "running":
        return "runs again", [f"A run began at {since}." if since else "A run began."]
    return "is up again", [f"It has been up since {since}."] if since else []


def _describe_late(facts: Mapping[str, Any]) -> list[str]:
    due, grace = read_time(facts, "due_ms"), read_number(facts, "grace_ms")
    details = [
        f"A run was due at {due}, and no signal has arrived." if due else "No signal has arrived in time."
    ]
    if grace is not None:
        details.append(
            f"Without a signal, the run counts as failed {write_seconds(grace / 1000)} after its due time."
        )
    return details


def _describe_down(facts: Mapping[str, Any]) -> list[str]:
    cause, exit_status = facts.get("cause"), read_number(facts, "exit_status")
    since, due = read_time(facts, "since_ms"), read_time(facts, "due_ms")
    grace, limit = read_number(facts, "grace_ms"), read_number(facts, "max_runtime_ms")
    details = []
    if cause == "missed" and due and grace is not None:
        details.append(f"A run was due at {due}, and none began within {write_seconds(grace / 1000)}.")
    elif cause == "failed":
        status = "" if exit_status is None else f" with exit status {exit_status}"
        details.append(f"Its run failed{status}" + (f" at {since}." if since else "."))
    elif cause == "timed out" and limit is not None:
        details.append(f"Its run did not end within {write_seconds(limit / 1000)}.")
    elif since:
        details.append(f"It has been down since {since}.")
    failures = read_number(facts, "failures_in_row")
    if failures is not None and failures > 1:
        details.append(f"{count_noun(failures, 'run')} failed in a row.")
    if cause != "missed" and (output := read_text(facts, "output", 370)) is not None:
        details.append(f"Its output ended with: {output}")
    return details


def _describe_schedule(facts: Mapping[str, Any]) -> str | None:
    period, cron = read_number(facts, "period_seconds"), read_text(facts, "cron", 200)
    following = _describe_next(facts)
    if period is not None:
        return f"It is due every {write_seconds(period)}{following}."
    if cron is None:
        return None
    zone = read_text(facts, "timezone", 64) or "UTC"
    return f"It is due on the schedule {cron} ({zone}){following}."


def _describe_next(facts: Mapping[str, Any]) -> str:
    """Return `, next at …`. Return an empty text if the due time in the facts belongs to a run that has not
    begun."""
    since, due = read_number(facts, "since_ms"), read_number(facts, "due_ms")
    if since is None or due is None or due <= since or facts.get("state") not in ("up", "down"):
        return ""
    return f", next at {read_time(facts, 'due_ms')}"


def _figures(facts: Mapping[str, Any]) -> list[Figure]:
    failures, limit = read_number(facts, "failures_in_row"), read_number(facts, "failures_before_down")
    if not failures:
        return []
    return [Figure(name="failures in a row", value=failures, threshold=limit)]
