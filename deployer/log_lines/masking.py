"""Hides the values of variables in log text.

A value is hidden anywhere in the text, in the forms of `printed_forms`, if it has at least four characters and is not
one of `COMMON_WORDS`. Each line of a multi-line value is hidden too, since a log consists of lines. In JSON, any of the
characters may be escaped, also in JSON within a JSON string. Parts of a value, and other transformations of it, are not
found: a build can print what it knows.

The patterns are blocks of at most 256 characters. So a long value is hidden even if only a block of it is printed, the
cost of a line does not depend on the length of the values, and only one block has to be buffered.
"""

from collections.abc import Iterable, Iterator

from deployer.log_lines.control_characters import remove_controls
from deployer.log_lines.json_escapes import iterate_readings
from deployer.log_lines.pattern_index import MAX_CHARACTERS, PatternIndex
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
"""Values in lower case that are shown, since they reveal nothing and are common in logs."""
_BLOCK = MAX_CHARACTERS
# Values that contain HIDDEN are rare, and need one or two rounds.
_MAX_ROUNDS = 4


class Mask:
    """Hides the values of an environment's variables.

    The construction takes up to two seconds for the largest allowed set of variables: do it in a thread.
    """

    def __init__(self, values: Iterable[str]) -> None:
        self._patterns = PatternIndex(
            {block for value in values for form in _iterate_patterns(value) for block in _split_blocks(form)}
        )
        self._has_placeholder_in_patterns = any(HIDDEN[0] in pattern for pattern in self._patterns)
        self.max_pattern_characters = self._patterns.max_pattern_characters
        """Length of the longest pattern; 0 without patterns."""
        self.memory_bytes = self._patterns.memory_bytes
        """About how much memory the mask uses."""

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
            if self._patterns.begins_with(text[start:]):
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
        beginnings, size = self._patterns.beginnings, self._patterns.beginning_characters
        if not beginnings:
            return
        end, recent = 0, dict[int, list[str]]()
        for start in [
            at for at in range(len(text) - MIN_CHARACTERS + 1) if text[at : at + size] in beginnings
        ]:
            if length := self._patterns.find_longest(text, start, end, recent):
                end = max(end, start + length)
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
