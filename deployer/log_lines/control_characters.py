"""Removes escape sequences and control characters from log text; tabs and line ends stay.

Logs are displayed in terminals and web pages, and stored in Postgres, which refuses NUL.
"""

import re
from collections.abc import Iterator

# ECMA-48 (ISO/IEC 6429), 5.4: a control sequence, with its introducer in seven or eight bits. 5.6: a control string,
# ended by ST or, as in xterm, by BEL. 5.3.3 and ISO/IEC 2022: all other escape sequences. The lengths bound the text
# that waits until a sequence is complete.
_SEQUENCE = (
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\n\r]{0,4096}(?:\x07|\x1b\\)"
    r"|\x1b[ -/]{0,8}[0-Z\\^-~]"
)
_CONTROLS = re.compile(rf"{_SEQUENCE}|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_INCOMPLETE_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}|\x1b[\]PX^_][^\x07\x1b\n\r]{0,4096}\x1b?|\x1b[ -/]{0,8}"
)
_MAX_INCOMPLETE_CHARACTERS = 4096 + 3


def find_controls(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of what `remove_controls` removes."""
    return (match.span() for match in _CONTROLS.finditer(text))


def remove_controls(text: str) -> str:
    """Return the text without escape sequences and control characters; tab, LF and CR stay."""
    # Most text has none, and this is ten times as fast.
    return text if text.isprintable() else _CONTROLS.sub("", text)


def split_incomplete_sequence(text: str) -> tuple[str, str]:
    """Return the text, and the escape sequence at its end that later text may complete; empty if there is none."""
    last = max(
        text.rfind("\x1b", -_MAX_INCOMPLETE_CHARACTERS), text.rfind("\x9b", -_MAX_INCOMPLETE_CHARACTERS)
    )
    if last < 0:
        return text, ""
    # The ESC of an ST is the second of its control string.
    before = max(text.rfind("\x1b", max(0, last - _MAX_INCOMPLETE_CHARACTERS), last), 0)
    for start in (before, last):
        if _INCOMPLETE_SEQUENCE.fullmatch(text, start):
            return text[:start], text[start:]
    return text, ""
