"""Joins the lines of a stack trace with the line before it, as log shippers do with multi-line records.

Only lines of one batch are joined: no line waits for the next one, and a repeated batch has the same records. A trace
that is split between two batches becomes two records, both with the severity `error`.
"""

import re

MAX_RECORD_CHARACTERS = 10_000
"""Longer traces continue in another record. The API returns as many characters of a record."""

_TRACEBACK = re.compile(r"\s*(?:\+ Exception Group )?Traceback \(most recent call last\):")
_CHAINED = re.compile(
    r"During handling of the above exception, another exception occurred:"
    r"|The above exception was the direct cause of the following exception:"
)
_GO_FAILURE = re.compile(r"panic: |fatal error: |goroutine \d{1,10} \[")
_GO_LINE = re.compile(
    r"\t|goroutine \d{1,10} |created by |\[signal |exit status \d|panic: |[\w./*()\[\]{}·-]{1,200}\([^()]{0,200}\)$"
)
# Java, JavaScript and .NET; Ruby.
_FRAME = re.compile(r"\s{1,16}(?:at \S[^\n]{0,300}?(?:\(|:\d+:\d+)|from \S{1,300}:\d+:in )")
_AFTER_FRAME = re.compile(r"\s|Caused by: |\}$")
# The middle of a Python traceback, if its beginning is in the batch before.
_PYTHON_FRAME = re.compile(r'\s{2,16}File "[^"]{1,300}", line \d')


class StackTraces:
    """Decides for each line of one output, in order, whether it continues the record before it."""

    def __init__(self) -> None:
        self._state = ""
        """The stack trace at the end of the record before: python, raised, go or frames; empty if there is none."""
        self._has_record = False
        self._is_error = False
        """True if the record before is one line that names the severity error or critical."""

    @property
    def is_in_trace(self) -> bool:
        """True if the newest line is part of a stack trace."""
        return bool(self._state)

    def continues(self, text: str, severity: str | None) -> bool:
        """Return True if this line belongs to the record before it. `severity`: the one that the line names."""
        if following := self._follow(text):
            self._state = following
            return True
        begun = _begin(text)
        # A logger prints its message before the traceback.
        is_joined = (begun == "python" and self._is_error) or (begun == "frames" and self._has_record)
        self._state, self._has_record = begun, True
        self._is_error = not begun and severity in ("error", "critical")
        return is_joined

    def reset(self) -> None:
        """Note a record that no line continues."""
        self._state, self._has_record, self._is_error = "", False, False

    def _follow(self, text: str) -> str:
        """Return the next state if the line continues the stack trace before it; else an empty text."""
        if self._state == "python":
            # The first line without indentation names the exception.
            return "python" if text[0].isspace() or _TRACEBACK.match(text) else "raised"
        if self._state == "raised":
            return "raised" if _CHAINED.match(text) else "python" if _TRACEBACK.match(text) else ""
        if self._state == "go":
            return "go" if _GO_LINE.match(text) else ""
        if self._state == "frames":
            return "frames" if _AFTER_FRAME.match(text) else ""
        return ""


def _begin(text: str) -> str:
    """Return the kind of the stack trace that begins with this line; empty if none does."""
    if _TRACEBACK.match(text) or _PYTHON_FRAME.match(text):
        return "python"
    if _GO_FAILURE.match(text):
        return "go"
    return "frames" if _FRAME.match(text) else ""
