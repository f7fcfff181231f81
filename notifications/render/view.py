"""Puts a message into words, in the order in which all formats show them. Channels add markup, and drop parts that do
not fit."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from notifications.message import MAX_LISTED, ListedIncident, Message
from notifications.render.words import (
    seconds_between,
    to_line,
    write_duration,
    write_figure,
    write_span,
    write_time,
)
from pipeline_contracts.alert_kinds import EventState, Severity

Tone = Literal["critical", "warning", "info", "resolved"]
"""The tone of a message or an incident. It decides the color and the icon."""

MAX_TITLE = 200
_MAX_DETAILS = 5
_MAX_DETAIL = 400
_MAX_FIGURES = 6
_MAX_LABELS = 6
_MAX_COMMAND = 200
_MIN_NAMED = 3
_MAX_NAME = 80
_MAX_URL = 1000
_URL = re.compile(r"[!#-;=?-\[\]_a-z{|}~]+", re.ASCII)
"""Printable ASCII without characters that end a link in some markup: quotes, angle brackets, backslashes, backticks,
carets."""
_TONE_WORDS: dict[Tone, str] = {
    "critical": "Critical",
    "warning": "Warning",
    "info": "Info",
    "resolved": "Resolved",
}


@dataclass(frozen=True, slots=True)
class Link:
    """A link to a page that the reader may open."""

    text: str
    url: str


@dataclass(frozen=True, slots=True)
class IncidentView:
    """One incident in words."""

    id: str
    tone: Tone
    word: str
    """The tone as a word, such as `Critical` or `Resolved`."""
    title: str
    since: str
    """The line about the time, such as `Since 26 Nov 2026, 03:00 UTC, for 2 h 10 min`."""
    details: Sequence[str]
    facts: Sequence[tuple[str, str]]
    """Pairs of a name and a value: the figures, labels that the title does not name, and the deployment before the
    incident."""
    command: str | None
    url: str | None


@dataclass(frozen=True, slots=True)
class MessageView:
    """One message in words."""

    tone: Tone
    word: str
    """The tone as a word, such as `Critical`, `Resolved`, `Reminder` or `Test`."""
    subject: str
    """One line that names project and environment, without the word of the tone. It can be the subject of an
    e-mail."""
    title: str
    where: Sequence[tuple[str, str]]
    """The account, the project and the environment."""
    notes: Sequence[str]
    """Sentences about the whole message, for example that it is a test."""
    incidents: Sequence[IncidentView]
    unlisted: int
    """Number of incidents that `incidents` leaves out."""
    links: Sequence[Link]

    @property
    def is_single(self) -> bool:
        """Return True if the message is about only one incident. Message and incident then have the same title."""
        return len(self.incidents) == 1 and not self.unlisted

    @property
    def more(self) -> str | None:
        """Return the line that counts the incidents that are left out, such as `… and 99,990 more`. None if there are
        none."""
        return f"… and {self.unlisted:,} more" if self.unlisted else None

    def list_fewer(self, count: int) -> "MessageView":
        """Return the view with only its first `count` incidents. The line `more` counts the others."""
        return replace(
            self,
            incidents=self.incidents[:count],
            unlisted=self.unlisted + max(0, len(self.incidents) - count),
        )

    def without_links(self) -> "MessageView":
        """Return the view without links. Used if the links would exceed the limit of a channel."""
        return replace(self, links=())


def view_message(message: Message) -> MessageView:
    """Return the view of the message. Each string is one line without control characters."""
    tone = _find_tone(message.state, message.severity)
    title = to_line(message.title, MAX_TITLE)
    place = _write_place(message)
    where = (
        ("Account", message.account),
        ("Project", message.project),
        ("Environment", message.environment),
    )
    return MessageView(
        tone=tone,
        word=_find_word(message, tone),
        subject=title if not place or place in title else f"{title} ({place})",
        title=title,
        where=[(name, to_line(value, _MAX_NAME)) for name, value in where if value],
        notes=list(_list_notes(message)),
        incidents=[_view_incident(incident, message) for incident in message.incidents[:MAX_LISTED]],
        unlisted=message.more + max(0, len(message.incidents) - MAX_LISTED),
        links=list(_list_links(message)),
    )


def keep_url(url: str | None) -> str | None:
    """Return the URL if every channel can link it. None otherwise."""
    if url is None or len(url) > _MAX_URL or not url.startswith(("https://", "http://")):
        return None
    return url if _URL.fullmatch(url) else None


def _find_tone(state: EventState, severity: Severity) -> Tone:
    if state == "resolved":
        return "resolved"
    return severity


def _find_word(message: Message, tone: Tone) -> str:
    if message.is_test:
        return "Test"
    if message.reason == "reminder":
        return "Reminder"
    return _TONE_WORDS[tone]


def _write_place(message: Message) -> str:
    names = [to_line(name, _MAX_NAME) for name in (message.project, message.environment) if name]
    return "/".join(names)


def _list_notes(message: Message) -> Iterator[str]:
    if message.is_test:
        yield "This is a test of the channel. Nothing is wrong."
    if message.reason == "reminder":
        yield "Still open, and nobody has acknowledged it."
    if len(message.incidents) + message.more > 1:
        counts = (("open", message.firing), ("resolved since the last message", message.resolved))
        counted = [f"{count:,} {word}" for word, count in counts if count]
        if counted:
            yield f"{', '.join(counted)}."


def _list_links(message: Message) -> Iterator[Link]:
    urls = [("Open", message.url)]
    # If everything is resolved, or if an event ended at once, there is nothing to acknowledge.
    if message.state == "firing":
        urls.append(("Acknowledge", message.acknowledge_url))
    if message.state != "resolved" and not message.is_test:
        urls.append(("Silence", message.silence_url))
    for text, url in urls:
        kept = keep_url(url)
        if kept is not None:
            yield Link(text, kept)


def _view_incident(incident: ListedIncident, message: Message) -> IncidentView:
    tone = _find_tone(incident.state, incident.severity)
    command = incident.command
    return IncidentView(
        id=to_line(incident.id, 60),
        tone=tone,
        word=_TONE_WORDS[tone],
        title=to_line(incident.title, MAX_TITLE),
        since=_write_since(incident, message.created_at),
        details=[to_line(detail, _MAX_DETAIL) for detail in incident.details[:_MAX_DETAILS]],
        facts=list(_list_facts(incident, message)),
        # A command that is cut off is worse than none.
        command=command if command is not None and to_line(command, _MAX_COMMAND) == command else None,
        url=keep_url(incident.url),
    )


def _write_since(incident: ListedIncident, now: str) -> str:
    start = write_time(incident.started_at)
    if incident.state == "info":
        return f"At {start}"
    if incident.state == "firing":
        lasted = seconds_between(incident.started_at, now)
        return f"Since {start}" + (f", for {write_duration(lasted)}" if lasted else "")
    if incident.resolved_at is None:
        return f"From {start}"
    lasted = seconds_between(incident.started_at, incident.resolved_at)
    span = write_span(incident.started_at, incident.resolved_at)
    return f"From {span}" + (f" ({write_duration(lasted)})" if lasted else "")


def _list_facts(incident: ListedIncident, message: Message) -> Iterator[tuple[str, str]]:
    for figure in incident.figures[:_MAX_FIGURES]:
        name, value = write_figure(figure)
        # An ended incident keeps its last figures.
        yield _capitalize(name), f"was {value}" if incident.state == "resolved" else value
    place = {"project": message.project, "environment": message.environment}
    # Repeating labels that are in the title would only make a list of ten incidents longer.
    labels = [
        (name, value)
        for name, value in incident.labels.items()
        if place.get(name) != value
        and not (len(value) >= _MIN_NAMED and value in incident.title)
        and not (name == "revision" and any(f"Commit {value[:7]}" in detail for detail in incident.details))
    ]
    for name, value in labels[:_MAX_LABELS]:
        yield _capitalize(to_line(name, _MAX_NAME)), to_line(value, MAX_TITLE)
    if incident.deployment is not None:
        yield "Last deployment", _write_deployment(incident)


def _write_deployment(incident: ListedIncident) -> str:
    deployment = incident.deployment
    assert deployment is not None
    words = f"#{deployment.number}"
    if deployment.revision:
        words += f" of {to_line(deployment.revision, 40)[:12]}"
    if deployment.subject:
        words += f" “{to_line(deployment.subject, 80)}”"
    before = seconds_between(deployment.finished_at, incident.started_at)
    return f"{words}, {write_duration(before)} earlier" if before else words


def _capitalize(name: str) -> str:
    return name[:1].upper() + name[1:]
