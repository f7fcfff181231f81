"""Escape sequences and control characters: taken out of what is logged, tabs and ends of lines kept.

A log is shown in terminals and in web pages, and kept by Postgres, which refuses NUL.
"""

import re

# ECMA-48 (ISO/IEC 6429), 5.4: a control sequence, with its introducer in seven or eight bits. 5.6: a control string,
# ended by ST or, as xterm has it, by BEL. 5.3.3 and ISO/IEC 2022: all other escape sequences. The lengths bound what
# has to be kept until a sequence is complete.
_SEQUENCE = (
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\n\r]{0,4096}(?:\x07|\x1b\\)"
    r"|\x1b[ -/]{0,8}[0-Z\\^-~]"
)
_REMOVED = re.compile(rf"{_SEQUENCE}|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_BEGUN = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}|\x1b[\]PX^_][^\x07\x1b\n\r]{0,4096}\x1b?|\x1b[ -/]{0,8}"
)
_LONGEST_BEGUN = 4096 + 3


def remove_controls(text: str) -> str:
    """The text without escape sequences and control characters; tab, LF and CR stay."""
    return _REMOVED.sub("", text)


def split_begun(text: str) -> tuple[str, str]:
    """The text, and the escape sequence at its end that what follows may complete; empty: there is none."""
    last = max(text.rfind("\x1b", -_LONGEST_BEGUN), text.rfind("\x9b", -_LONGEST_BEGUN))
    if last < 0:
        return text, ""
    # The ESC of an ST is the second of its control string.
    before = max(text.rfind("\x1b", max(0, last - _LONGEST_BEGUN), last), 0)
    for start in (before, last):
        if _BEGUN.fullmatch(text, start):
            return text[:start], text[start:]
    return text, ""
