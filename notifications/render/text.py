"""Renders a message as plain text, in lines of at most 80 characters.

Only URLs and commands may make a line longer, because they must stay whole.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator

from notifications.message import Message
from notifications.render.view import IncidentView, MessageView, view_message
from notifications.render.words import to_line

_COLUMNS = 80
_MAX_NAME = 23
_NUMBER_AND_UNIT = re.compile(r"([0-9]) (ms|s|min|h|d)\b")
"""Matches a number and its unit. A line does not end between the two."""


def render_text(message: Message) -> str:
    """Return the message as text that ends with a newline."""
    view = view_message(message)
    return "\n".join(_list_lines(view, message)) + "\n"


def _list_lines(view: MessageView, message: Message) -> Iterator[str]:
    yield from _wrap(f"{view.word.upper()}: {view.title}")
    yield ""
    yield from _write_table(view.where, "")
    for note in view.notes:
        yield ""
        yield from _wrap(note)
    for incident in view.incidents:
        yield ""
        yield from _write_incident(incident, is_single=view.is_single)
    if view.more:
        yield ""
        yield view.more
    if view.links:
        yield ""
        for link in view.links:
            yield f"{link.text}:"
            yield f"  {link.url}"
    yield ""
    yield "-- "
    yield from _wrap(f"Pharos, message {message.id} of {message.group_id}")


def _write_incident(incident: IncidentView, *, is_single: bool) -> Iterator[str]:
    if not is_single:
        yield from _wrap(f"[{incident.word}] {incident.title}", then="  ")
    indent = "" if is_single else "  "
    yield from _wrap(incident.since, indent)
    for detail in incident.details:
        yield from _wrap(detail, indent)
    yield from _write_table([*incident.facts, ("Incident", incident.id)], indent)
    if incident.command:
        yield f"{indent}Look closer:"
        yield f"{indent}  {incident.command}"
    if incident.url and not is_single:
        yield f"{indent}{incident.url}"


def _write_table(rows: Iterable[tuple[str, str]], indent: str) -> Iterator[str]:
    named = [(f"{to_line(name, _MAX_NAME)}:", value) for name, value in rows]
    width = max((len(name) for name, _ in named), default=0)
    for name, value in named:
        head = f"{indent}{name:<{width}} "
        yield from _wrap(value, head, indent + " " * (width + 1))


def _wrap(text: str, first: str = "", then: str | None = None) -> list[str]:
    lines = textwrap.wrap(
        _NUMBER_AND_UNIT.sub("\\1\u00a0\\2", text),
        _COLUMNS,
        initial_indent=first,
        subsequent_indent=first if then is None else then,
        break_on_hyphens=False,
    )
    return [line.replace("\u00a0", " ") for line in lines] or [first.rstrip()]
