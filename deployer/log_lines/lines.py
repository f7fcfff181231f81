"""Splits the bytes that a program prints into log lines."""

import codecs

from deployer.log_lines.control_characters import remove_controls, split_incomplete_sequence
from deployer.log_lines.masking import Mask

MAX_LINE_CHARACTERS = 8 * 1024
"""Maximum number of characters of a line, with the truncation note."""
TRUNCATION_NOTE = " … (line cut)"
_DECODED_BYTES = 64 * 1024
"""Number of bytes that are decoded at a time."""


class LineSplitter:
    """Splits one stream into lines in which values are hidden.

    - Decodes UTF-8; invalid bytes become U+FFFD. LF and CRLF end a line. A CR alone restarts the line, as in terminals
      and progress bars: only the text after the last CR counts.
    - Removes escape sequences and control characters other than tab.
    - Truncates a line over `MAX_LINE_CHARACTERS` to end in `TRUNCATION_NOTE`. Values are hidden first, so a truncated
      line does not end in four or more characters of a value.

    The lines do not depend on how the bytes are chunked. At most a few thousand characters are buffered.
    """

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._partial_sequence = ""
        """An escape sequence that is not complete yet."""
        self._line_parts: list[str] = []
        """The characters of the current line so far."""
        self._free_characters = self._line_capacity = MAX_LINE_CHARACTERS + mask.max_pattern_characters
        self._is_overflowing = False
        self._has_seen_return = False
        """True if the last character was a CR."""
        self._is_new = False
        """True if the current line has text that was not returned yet."""
        self._is_flushed = False
        """True if `flush` has returned the beginning of the current line."""

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that these bytes complete."""
        lines: list[str] = []
        for start in range(0, len(data), _DECODED_BYTES):
            self._add_text(self._decoder.decode(data[start : start + _DECODED_BYTES]), lines)
        return lines

    def flush(self) -> list[str]:
        """Return the unfinished line if it has new text: at the end of the stream, or for a prompt without a line end.

        Later bytes begin a line of their own. If the unfinished line ends in the beginning of a value, that end is
        hidden here and repeated at the start of the next line, which shows or hides it once its continuation is known.
        """
        if not self._is_new:
            return []
        line = "".join(self._line_parts)
        shown = self._finish(line, unfinished=True)
        self._line_parts.clear()
        # The rest of a truncated line may begin inside a value, so it is dropped up to the LF.
        if not self._is_overflowing:
            self._free_characters = self._line_capacity
            self._append(line[self._mask.find_partial_value(line) :])
        self._is_new, self._is_flushed = False, True
        return [shown]

    def _add_text(self, text: str, lines: list[str]) -> None:
        text, self._partial_sequence = split_incomplete_sequence(self._partial_sequence + text)
        first, *others = remove_controls(text).split("\n")
        self._add(first)
        for other in others:
            self._end_line(lines)
            self._add(other)

    def _end_line(self, lines: list[str]) -> None:
        # The LF after a flushed prompt ends no further line.
        if self._is_new or not self._is_flushed:
            lines.append(self._finish("".join(self._line_parts), unfinished=self._is_overflowing))
        self._clear_line()
        self._is_overflowing = self._has_seen_return = self._is_new = self._is_flushed = False

    def _add(self, text: str) -> None:
        """Append `text`, which has no LF, to the current line."""
        for number, segment in enumerate(text.split("\r")):
            self._has_seen_return = self._has_seen_return or number > 0
            if not segment:
                continue
            # Do not restart the line at the CR itself: the CR may be part of a CRLF.
            if self._has_seen_return:
                self._clear_line()
                self._is_overflowing = self._has_seen_return = False
            self._is_new = self._is_new or self._free_characters > 0
            self._append(segment)

    def _append(self, text: str) -> None:
        if len(text) > self._free_characters:
            self._is_overflowing = True
        if self._free_characters and text:
            self._line_parts.append(text[: self._free_characters])
            self._free_characters -= len(self._line_parts[-1])

    def _clear_line(self) -> None:
        self._line_parts.clear()
        self._free_characters = self._line_capacity

    def _finish(self, line: str, *, unfinished: bool) -> str:
        return hide_and_truncate(line, self._mask, unfinished=unfinished, is_truncated=self._is_overflowing)


def hide_and_truncate(line: str, mask: Mask, *, unfinished: bool, is_truncated: bool = False) -> str:
    """Return at most `MAX_LINE_CHARACTERS` of the line, in which values are hidden.

    The cost does not depend on the length of the line: values are searched only in the characters that may be shown,
    and in as many after them as a value may have. `unfinished`: the end of the line may begin a value. `is_truncated`:
    the line is the beginning of a longer one.
    """
    searched = MAX_LINE_CHARACTERS + mask.max_pattern_characters
    if len(line) > searched:
        line, is_truncated = line[:searched], True
    shown = mask.hide(line, unfinished=unfinished or is_truncated)
    if len(shown) <= MAX_LINE_CHARACTERS and not is_truncated:
        return shown
    # Hide once more: a value may end inside the note.
    return mask.hide(shown[: MAX_LINE_CHARACTERS - len(TRUNCATION_NOTE)] + TRUNCATION_NOTE)
