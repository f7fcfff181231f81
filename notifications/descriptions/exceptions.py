"""Descriptions of groups of exceptions that are new, have returned, or are far more frequent than usual."""

from collections.abc import Mapping
from typing import Any

from notifications.descriptions.interface import Description, Subject
from notifications.descriptions.read_facts import (
    TITLE_LENGTH,
    count_noun,
    cut_title,
    read_number,
    read_text,
    read_time,
    write_seconds,
)
from notifications.descriptions.thresholds import read_float
from notifications.message import Figure

_MESSAGE_LENGTH = 80
"""How many characters of an exception's message its title has at most."""
_ENDS = {"resolved": "was resolved", "ignored": "was ignored", "forgotten": "was not resolved for 30 days"}


def describe(subject: Subject) -> Description:
    """Return the description of an event of a group of exceptions."""
    facts = subject.facts
    if (more := read_number(facts, "more")) is not None:
        return Description(
            title=f"{count_noun(more, 'more new group')} of exceptions",
            details=["So many groups appeared at once that these have no messages of their own."],
            command=_command(facts, None),
        )
    exception, group = _name(facts), read_text(facts, "group", 16)
    service, message = read_text(facts, "service", 100), read_text(facts, "message", 300)
    where = f" in {service}" if service else ""
    details = [message] if message else []
    if frame := read_text(facts, "frame", 200):
        details.append(f"Raised at {frame}.")
    figures = []
    if subject.state == "resolved":
        title = f"{exception}{where} {_ENDS.get(str(facts.get('reason')), 'is no longer frequent')}"
    elif subject.kind == "exception.regressed":
        title = f"{exception}{where} is back after it was resolved"
        if at := read_time(facts, "regressed_ms"):
            details.append(f"A newer release raised it at {at}.")
    elif subject.kind == "exception.spike":
        title = f"{exception}{where} is far more frequent than usual"
        figures = _spike_figures(facts)
        details += _explain_spike(facts)
    else:
        title, is_complete = _title_of_new(exception, where, message)
        if is_complete:
            details = details[1:]
        if at := read_time(facts, "first_seen_ms"):
            details.append(f"First seen at {at}.")
    return Description(
        title=cut_title(title),
        details=details,
        figures=figures,
        labels={
            name: value
            for name, value in (("exception", exception), ("service", service), ("group", group))
            if value
        },
        command=_command(facts, group),
    )


def _title_of_new(exception: str, where: str, message: str | None) -> tuple[str, bool]:
    """Return a title with the start of the message, and True if it has the whole message."""
    title = f"New exception {exception}{where}"
    if not message:
        return title, False
    if exception == message:
        return title, True
    first_line = message.strip().partition("\n")[0].rstrip()
    start = first_line if len(first_line) <= _MESSAGE_LENGTH else f"{first_line[:_MESSAGE_LENGTH].rstrip()}…"
    title = f"{title}: {start.removesuffix('.')}"
    return title, start == message and len(title) <= TITLE_LENGTH


def _name(facts: Mapping[str, Any]) -> str:
    kind = read_text(facts, "exception", 100)
    return kind or read_text(facts, "message", 100) or "An exception"


def _explain_spike(facts: Mapping[str, Any]) -> list[str]:
    value, usual = read_float(facts, "value"), read_float(facts, "usual")
    seconds = read_number(facts, "window_seconds")
    if value is None or usual is None or seconds is None:
        return []
    window = write_seconds(seconds)
    return [f"{value:,.0f} in the last {window}; usually {usual:,.1f} in {window} during the last day."]


def _spike_figures(facts: Mapping[str, Any]) -> list[Figure]:
    value = read_float(facts, "value")
    if value is None:
        return []
    return [
        Figure(name="exceptions", value=value, unit="", threshold=read_float(facts, "threshold")),
    ]


def _command(facts: Mapping[str, Any], group: str | None) -> str:
    environment = read_text(facts, "environment", 60)
    suffix = "" if environment is None else f" --environment {environment}"
    return f"pharos issues list{suffix}" if group is None else f"pharos issues show {group}{suffix}"
