"""Splits bytes of an output file into the lines of one batch. Does no I/O."""

from typing import NamedTuple


class Taken(NamedTuple):
    """The lines of one batch."""

    lines: list[bytes]
    size: int
    """Number of bytes that the lines used, including bytes that are left out."""
    is_in_line: bool
    """True if the last line continues after these bytes. The rest of that line is left out."""


def take_lines(data: bytes, most_lines: int, *, is_in_line: bool, is_full: bool, is_ended: bool) -> Taken:
    """Return up to `most_lines` lines from the beginning of `data`.

    `is_in_line`: the data begin inside a line whose beginning is stored. The rest of that line is left out. `is_full`:
    more data follow, so a line without an end is too long. `is_ended`: the file ends here, and a line without an end
    continues in another file. In both cases the rest of the line is left out: it could be the second half of a secret,
    which the mask does not recognize.
    """
    begin = 0
    if is_in_line:
        begin = data.find(b"\n") + 1
        if begin == 0:
            return Taken([], len(data), True)
    lines: list[bytes] = []
    while len(lines) < most_lines:
        end = data.find(b"\n", begin)
        if end < 0:
            break
        lines.append(data[begin:end])
        begin = end + 1
    if len(lines) < most_lines and begin < len(data):
        # If a full read ends in a line that did not begin the read, the next read begins with that line.
        is_too_long = is_full and begin == 0
        if is_too_long or is_ended:
            lines.append(data[begin:])
            return Taken(lines, len(data), True)
    return Taken(lines, begin, False)
