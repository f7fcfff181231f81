"""Bytes that a program prints, to the lines of a log."""

import codecs

from deployer.log_lines.control_characters import remove_controls, split_begun
from deployer.log_lines.masking import Mask

LONGEST_LINE = 8 * 1024
"""Characters, the note that it was cut among them."""
CUT = " … (line cut)"
_SLICE = 64 * 1024
"""Bytes that are decoded together."""


class LineCutter:
    """One stream, cut into lines in which values are hidden.

    - UTF-8; what is none becomes U+FFFD. LF and CRLF end a line. A CR alone begins it anew, as terminals and progress
      bars have it: what stood last counts.
    - Escape sequences and control characters other than tab are taken out.
    - A line over `LONGEST_LINE` ends in `CUT`, and its rest is dropped. Values are hidden before: a cut leaves no
      beginning of one over, of four characters or more.

    However the bytes are fed, the lines are the same. A few thousand characters are kept at most.
    """

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = ""
        """An escape sequence that is not complete."""
        self._kept: list[str] = []
        """The line so far."""
        self._room = self._most = LONGEST_LINE + mask.longest
        self._overflowed = False
        self._returned = False
        """Whether a CR came, and nothing after it."""
        self._is_new = False
        """Whether a line has begun that was not given out yet."""
        self._flushed = False
        """Whether `end` gave out what this line began with."""

    def feed(self, data: bytes) -> list[str]:
        """The lines that these bytes complete."""
        lines: list[str] = []
        for start in range(0, len(data), _SLICE):
            self._take(self._decoder.decode(data[start : start + _SLICE]), lines)
        return lines

    def end(self) -> list[str]:
        """What stands after the last LF, if anything new does: at the stream's end, or because it waits, as a prompt.

        What is fed later begins a line of its own. Where this one ends as a value begins, that end is not shown, and
        is kept for the next: there it is shown or hidden, whichever it turns out to be.
        """
        if not self._is_new:
            return []
        line = "".join(self._kept)
        shown = self._finish(line, unfinished=True)
        self._kept.clear()
        # What was cut has no room any more: its rest may begin inside of a value, and is dropped until the LF.
        if not self._overflowed:
            self._room = self._most
            self._keep(line[self._mask.find_begun(line) :])
        self._is_new, self._flushed = False, True
        return [shown]

    def _take(self, text: str, lines: list[str]) -> None:
        text, self._begun = split_begun(self._begun + text)
        first, *others = remove_controls(text).split("\n")
        self._add(first)
        for other in others:
            self._end_line(lines)
            self._add(other)

    def _end_line(self, lines: list[str]) -> None:
        # The LF after a prompt that was given out ends no line of its own.
        if self._is_new or not self._flushed:
            lines.append(self._finish("".join(self._kept), unfinished=self._overflowed))
        self._clear()
        self._overflowed = self._returned = self._is_new = self._flushed = False

    def _add(self, text: str) -> None:
        """Go on with the line; `text` has no LF."""
        for number, segment in enumerate(text.split("\r")):
            self._returned = self._returned or number > 0
            if not segment:
                continue
            # Not at the CR itself: it may be one of a CRLF.
            if self._returned:
                self._clear()
                self._overflowed = self._returned = False
            self._is_new = self._is_new or self._room > 0
            self._keep(segment)

    def _keep(self, text: str) -> None:
        if len(text) > self._room:
            self._overflowed = True
        if self._room and text:
            self._kept.append(text[: self._room])
            self._room -= len(self._kept[-1])

    def _clear(self) -> None:
        self._kept.clear()
        self._room = self._most

    def _finish(self, line: str, *, unfinished: bool) -> str:
        shown = self._mask.hide(line, unfinished=unfinished)
        if len(shown) <= LONGEST_LINE and not self._overflowed:
            return shown
        # Once more: a value may end in the note.
        return self._mask.hide(shown[: LONGEST_LINE - len(CUT)] + CUT)
