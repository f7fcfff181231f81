"""Undoes the escapes of JSON strings in log text, and maps positions back to the original text.

Encoders escape different characters: .NET's writes a plus sign as `\\u002B`, PHP's a slash as `\\/`. So the forms in
which a value may be printed cannot be listed.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from deployer.log_lines.control_characters import find_controls

# RFC 8259, 7. Two \u escapes may be the surrogate pair of one character.
_ESCAPE = re.compile(
    r"\\(?:"
    r"u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
    r'|(?:u([0-9a-fA-F]{4})|(["\\/bfnrt])))'
)
_INCOMPLETE_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_MAX_INCOMPLETE_CHARACTERS = 5
_SHORT = dict(zip('"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True))
_LEVELS = 2
"""Of escapes that are undone: a JSON string may contain JSON. It is also unknown how many backslashes before `\\u002B`
belong to text that is not JSON."""


class Reading(NamedTuple):
    """One reading of a text."""

    text: str
    places: Sequence[int]
    """For each character, and for the end of `text`, its position in the original text. The end is the beginning of an
    escape that is incomplete, or the end of the original text."""


def iterate_readings(text: str) -> Iterator[Reading]:
    """Yield the text as it is, then, if it contains escapes, with one and with two levels of them undone.

    The time is linear in the length of the text. Control characters that were escaped are left out, as
    `remove_controls` does.
    """
    places: Sequence[int] = range(len(text) + 1)
    yield Reading(text, places)
    for _ in range(_LEVELS):
        if "\\" not in text:
            return
        undone, own = _undo_escapes(text)
        if undone == text:
            return
        text = undone
        places = [places[at] for at in own]
        yield Reading(text, places)


def _undo_escapes(text: str) -> Reading:
    pieces: list[str] = []
    places: list[int] = []
    end = 0
    for match in _ESCAPE.finditer(text):
        start = match.start()
        if start > end:
            pieces.append(text[end:start])
            places += range(end, start)
        high, low, code, short = match.groups()
        if short:
            pieces.append(_SHORT[short])
        elif code:
            pieces.append(chr(int(code, 16)))
        else:
            pieces.append(bytes.fromhex(high + low).decode("utf-16-be"))
        places.append(start)
        end = match.end()
    incomplete = _INCOMPLETE_ESCAPE.search(text, max(end, len(text) - _MAX_INCOMPLETE_CHARACTERS))
    stop = incomplete.start() if incomplete else len(text)
    pieces.append(text[end:stop])
    places += range(end, stop)
    plain = "".join(pieces)
    if "\ud800" <= plain[-1:] <= "\udbff":
        # The first half of a surrogate pair.
        plain, stop = plain[:-1], places.pop()
    places.append(stop)
    return _remove_controls(Reading(plain, places))


def _remove_controls(reading: Reading) -> Reading:
    pieces: list[str] = []
    places: list[int] = []
    shown = 0
    for start, end in find_controls(reading.text):
        pieces.append(reading.text[shown:start])
        places += reading.places[shown:start]
        shown = end
    if not shown:
        return reading
    pieces.append(reading.text[shown:])
    places += reading.places[shown:]
    return Reading("".join(pieces), places)
