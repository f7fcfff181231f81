"""Fits messages into the limits of chat services. Each line is kept whole or dropped, so that no markup is cut in the
middle."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from notifications.render.view import MessageView

Length = Callable[[str], int]
_Payload = TypeVar("_Payload")
_SHRINKING = (1.0, 0.6, 0.35, 0.2, 0.12)


def count_utf16(text: str) -> int:
    """Return the length of the text in UTF-16 units, as JavaScript counts it. Services that count code points accept at
    least as many."""
    return len(text) + sum(character > "\uffff" for character in text)


def count_bytes(text: str) -> int:
    """Return the length of the text in bytes of UTF-8."""
    return len(text.encode())


def fit_lines(lines: Iterable[str], limit: int, length: Length = count_utf16) -> str:
    """Return the lines, joined by newlines, up to the limit. If a line does not fit, `…` replaces this line and all
    lines after it."""
    text = ""
    for line in lines:
        longer = f"{text}\n{line}" if text else line
        # The newline and the ellipsis need up to four bytes.
        if length(longer) > limit - 4:
            return f"{text}\n…" if text else "…"
        text = longer
    return text


def cut(text: str, limit: int, length: Length = count_utf16) -> str:
    """Return a text without markup, cut to the limit. The limit must be at least 3 bytes, the length of the
    ellipsis."""
    if length(text) <= limit:
        return text
    end = length("…")
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if length(text[:middle]) + end <= limit else (low, middle - 1)
    return text[:low].rstrip() + "…"


def shrink(
    view: MessageView,
    limit: int,
    build: Callable[[MessageView, int], _Payload],
    fits: Callable[[_Payload], bool],
) -> _Payload:
    """Return the largest payload that fits.

    `build`: makes a payload from the view and the limit for one incident. To fit, first the incidents become shorter,
    then fewer incidents are listed, and finally the links are left out.
    """
    least = int(limit * _SHRINKING[-1])
    attempts = [(view, int(limit * share)) for share in _SHRINKING]
    attempts += [(view.list_fewer(count), least) for count in range(len(view.incidents) - 1, -1, -1)]
    for attempt, incident_limit in attempts:
        payload = build(attempt, incident_limit)
        if fits(payload):
            return payload
    return build(view.list_fewer(0).without_links(), least)
