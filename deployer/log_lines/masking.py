"""Hides the values of variables in log text.

A value is hidden anywhere in the text, in the forms of `printed_forms`, if it has at least four characters and is not
one of `COMMON_WORDS`. Each line of a multi-line value is hidden too, since a log consists of lines. In JSON, any of the
characters may be escaped, also in JSON within a JSON string. Parts of a value, and other transformations of it, are not
found: a build can print what it knows.

The patterns are blocks of at most 256 characters. So a long value is hidden even if only a block of it is printed, the
cost of a line does not depend on the length of the values, and only one block has to be buffered.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from sys import getsizeof

from deployer.log_lines.control_characters import remove_controls
from deployer.log_lines.json_escapes import iterate_readings
from deployer.log_lines.printed_forms import iterate_base64_forms, iterate_written_forms

HIDDEN = "•••"
MIN_CHARACTERS = 4
"""Minimum length of a value to hide. Shorter values occur too often in ordinary text."""
_WORDS = """
true false none null undefined yes no on off enabled disabled enable disable always never auto default
debug info notice warn warning error critical
production staging preview development develop test tests testing local localhost main master
http https utf8 utf-8 127.0.0.1 0.0.0.0
"""
COMMON_WORDS = frozenset(_WORDS.split())
"""Values, in lower case, that are not hidden: they reveal nothing and are common in logs."""
_BLOCK = 256
# Bytes that a pattern uses in addition to its text: for its places in a list, a set and two arrays.
_PATTERN_BYTES = 100
# Maximum number of passes over a text. Values that contain HIDDEN are rare, and need one or two passes.
_MAX_ROUNDS = 4


class Mask:
    """Hides the values of an environment's variables.

    The construction takes half a second for the largest allowed set of variables: do it in a thread.
    """

    def __init__(self, values: Iterable[str]) -> None:
        self._patterns = sorted(
            {block for value in values for form in _iterate_patterns(value) for block in _split_blocks(form)}
        )
        self._first_characters = {pattern[:MIN_CHARACTERS] for pattern in self._patterns}
        self._prefixes = _find_prefixes(self._patterns)
        self._jumps = _find_jumps(self._prefixes)
        self._has_placeholder_in_patterns = any(HIDDEN[0] in pattern for pattern in self._patterns)
        self.max_pattern_characters = max(map(len, self._patterns), default=0)
        """Length of the longest pattern; 0 without patterns."""
        self.memory_bytes = sum(getsizeof(pattern) + _PATTERN_BYTES for pattern in self._patterns)
        """About how many bytes of memory the mask uses."""

    def hide(self, text: str, *, unfinished: bool = False) -> str:
        """Return the text with `HIDDEN` in place of each value; values that touch or overlap become one.

        If the text is `unfinished`, an end of four or more characters that begins a value is hidden as well.
        """
        for _ in range(_MAX_ROUNDS):
            spans = list(self._find_in_readings(text, unfinished=unfinished))
            if not spans:
                return text
            text = _replace(text, spans)
            # The replacement may have composed a value that contains HIDDEN.
            if not self._has_placeholder_in_patterns:
                return text
            unfinished = False
        # A text can be made so that each pass removes only one more character.
        return HIDDEN

    def find_partial_value(self, text: str) -> int:
        """Return the start of the longest end of the text that begins a value; the text's length if there is none.

        In a text with escapes, the beginning of an escape may begin a value.
        """
        if not self.max_pattern_characters:
            return len(text)
        return min(places[self._find_partial(reading)] for reading, places in iterate_readings(text))

    def _find_partial(self, text: str) -> int:
        for start in range(max(0, len(text) - self.max_pattern_characters + 1), len(text)):
            end = text[start:]
            # The next pattern in sort order begins with `end` if any does.
            at = bisect_right(self._patterns, end)
            if at < len(self._patterns) and self._patterns[at].startswith(end):
                return start
        return len(text)

    def _find_in_readings(self, text: str, *, unfinished: bool) -> Iterator[tuple[int, int]]:
        if not self.max_pattern_characters:
            return
        for reading, places in iterate_readings(text):
            for start, end in self._find(reading):
                yield places[start], places[end]
            if unfinished and len(text) - (begun := places[self._find_partial(reading)]) >= MIN_CHARACTERS:
                yield begun, len(text)

    def _find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield start and end of the longest value at each position, in the order of the positions. Leave out values
        that lie within those before."""
        first_characters = self._first_characters
        if not first_characters:
            return
        patterns, end = self._patterns, 0
        for start in [
            at
            for at in range(len(text) - MIN_CHARACTERS + 1)
            if text[at : at + MIN_CHARACTERS] in first_characters
        ]:
            # All patterns that match here are prefixes of one pattern: the last one that does not sort after the text.
            at = bisect_right(patterns, text[start : start + _BLOCK]) - 1
            if start < end and not patterns[at].startswith(text[start : end + 1]):
                continue
            # If a pattern matches, its prefixes do too: a jump over several prefixes is right if it ends at one that
            # does not match.
            while at >= 0 and not text.startswith(patterns[at], start):
                jump = self._jumps[at]
                is_too_far = jump < 0 or text.startswith(patterns[jump], start)
                at = self._prefixes[at] if is_too_far else jump
            if at >= 0:
                end = max(end, start + len(patterns[at]))
                yield start, end


def _iterate_patterns(value: str) -> Iterator[str]:
    """Yield the lines of all forms of a value, without control characters and surrounding blanks."""
    for form in set(_iterate_forms(value)):
        for line in remove_controls(form.replace("\r", "\n")).split("\n"):
            bare = line.strip()
            if len(line) >= MIN_CHARACTERS and bare and bare.lower() not in COMMON_WORDS:
                yield bare if len(bare) >= MIN_CHARACTERS else line


def _iterate_forms(value: str) -> Iterator[str]:
    if len(value) < MIN_CHARACTERS or not value.strip() or value.strip().lower() in COMMON_WORDS:
        return
    yield from iterate_written_forms(value)
    yield from iterate_base64_forms(value)
    lines = value.splitlines()
    if len(lines) > 1:
        for line in lines:
            if len(line) >= MIN_CHARACTERS:
                yield from iterate_written_forms(line)


def _split_blocks(form: str) -> Iterator[str]:
    """Yield the form in blocks of equal length. The last block overlaps the block before it."""
    if len(form) <= _BLOCK:
        yield form
        return
    for start in (*range(0, len(form) - _BLOCK, _BLOCK), len(form) - _BLOCK):
        if (block := form[start : start + _BLOCK]).strip():
            yield block


def _find_prefixes(patterns: Sequence[str]) -> Sequence[int]:
    """For each of the sorted patterns, return the index of the longest other pattern that is its prefix. -1 if there
    is none."""
    found = array("i")
    for at, pattern in enumerate(patterns):
        before = at - 1
        while before >= 0 and not pattern.startswith(patterns[before]):
            before = found[before]
        found.append(before)
    return found


def _find_jumps(prefixes: Sequence[int]) -> Sequence[int]:
    """For each pattern, return the index of a shorter pattern that is its prefix. -1 if there is none.

    The lengths of the jumps make a search among n prefixes take O(log n) steps: Myers, "An applicative random-access
    stack", Information Processing Letters 17 (1983).
    """
    jumps = array("i")
    depths = array("i")
    for prefix in prefixes:
        if prefix < 0:
            jumps.append(-1)
            depths.append(0)
            continue
        depths.append(depths[prefix] + 1)
        jump = jumps[prefix]
        is_doubled = jump >= 0 and depths[prefix] - depths[jump] == depths[jump] - (
            depths[jumps[jump]] if jumps[jump] >= 0 else -1
        )
        jumps.append(jumps[jump] if is_doubled else prefix)
    return jumps


def _replace(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return the text with `HIDDEN` in place of the spans; spans that touch or overlap become one."""
    pieces: list[str] = []
    shown = 0
    end = -1
    for start, stop in sorted(spans):
        if start > end:
            pieces += text[shown:start], HIDDEN
        shown = end = max(end, stop)
    return "".join((*pieces, text[shown:]))
