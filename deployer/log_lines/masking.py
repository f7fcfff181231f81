"""Hides the values of variables in what is logged.

A value is hidden wherever it stands, in the forms of `printed_forms`, if it has four characters or more and is none
of `COMMON_WORDS`. Of a value of several lines each line is hidden, too, since a log is kept by lines. A part of a
value, and what a program made of it in other ways, is not found: a build can print what it knows.

What is looked for is cut into blocks of 256 characters. So a long value is hidden even where only a block of it is
printed, a line costs the same however long the values are, and no more than a block has to be seen together.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from deployer.log_lines.control_characters import remove_controls
from deployer.log_lines.printed_forms import base64_forms, written_forms

HIDDEN = "•••"
SHORTEST = 4
"""Characters: what is shorter stands in ordinary text too often."""
_WORDS = """
true false none null undefined yes no on off enabled disabled enable disable always never auto default
debug info notice warn warning error critical
production staging preview development develop test tests testing local localhost main master
http https utf8 utf-8 127.0.0.1 0.0.0.0
"""
COMMON_WORDS = frozenset(_WORDS.split())
"""Values that tell nothing and stand in every log, in any case: they are shown."""
_BLOCK = 256


class Mask:
    """The values of an environment's variables, ready to be hidden.

    To make one takes half a second for the most and longest variables that there may be: do it in a thread.
    """

    def __init__(self, values: Iterable[str]) -> None:
        self._patterns = sorted(
            {block for value in values for form in _forms(value) for block in _blocks(form)}
        )
        self._heads = {pattern[:SHORTEST] for pattern in self._patterns}
        self._shorter = _shorter_beginnings(self._patterns)
        self._hides_marks = any(HIDDEN[0] in pattern for pattern in self._patterns)
        self.longest = max(map(len, self._patterns), default=0)
        """Characters that may have to be seen together."""

    def hide(self, text: str, *, unfinished: bool = False) -> str:
        """The text, with `HIDDEN` for each value in it; values that touch or overlap become one.

        Where the text is `unfinished`, an end of four characters or more that a value begins with is hidden as well.
        """
        spans = list(self._find(text))
        if unfinished and len(text) - (begun := self.find_begun(text)) >= SHORTEST:
            spans.append((begun, len(text)))
        if not spans:
            return text
        hidden = _replace(text, spans)
        # A value with the mark in it may stand in the text only now. It is longer than the mark, so this ends.
        return self.hide(hidden) if self._hides_marks else hidden

    def find_begun(self, text: str) -> int:
        """Where the longest end of the text begins that a value goes on from; the text's length: there is none."""
        for start in range(max(0, len(text) - self.longest + 1), len(text)):
            end = text[start:]
            # The first pattern after it: one that it begins, if any does.
            at = bisect_right(self._patterns, end)
            if at < len(self._patterns) and self._patterns[at].startswith(end):
                return start
        return len(text)

    def _find(self, text: str) -> Iterator[tuple[int, int]]:
        """From where to where values stand, in the order of their beginnings: of each place the longest."""
        heads = self._heads
        if not heads:
            return
        for start in [at for at in range(len(text) - SHORTEST + 1) if text[at : at + SHORTEST] in heads]:
            # In their order, all patterns that the text goes on with are beginnings of the last that is not after it.
            at = bisect_right(self._patterns, text[start : start + _BLOCK]) - 1
            while at >= 0 and not text.startswith(self._patterns[at], start):
                at = self._shorter[at]
            if at >= 0:
                yield start, start + len(self._patterns[at])


def _forms(value: str) -> Iterator[str]:
    """What to look for of a value, as the log has it: without control characters, and without blanks round it."""
    for form in set(_all_forms(value)):
        for line in remove_controls(form.replace("\r", "\n")).split("\n"):
            bare = line.strip()
            if len(line) >= SHORTEST and bare and bare.lower() not in COMMON_WORDS:
                yield bare if len(bare) >= SHORTEST else line


def _all_forms(value: str) -> Iterator[str]:
    if len(value) < SHORTEST or not value.strip() or value.strip().lower() in COMMON_WORDS:
        return
    yield from written_forms(value)
    yield from base64_forms(value)
    lines = value.splitlines()
    if len(lines) > 1:
        for line in lines:
            if len(line) >= SHORTEST:
                yield from written_forms(line)


def _blocks(form: str) -> Iterator[str]:
    """The form in blocks, the last as long as the others."""
    if len(form) <= _BLOCK:
        yield form
        return
    for start in (*range(0, len(form) - _BLOCK, _BLOCK), len(form) - _BLOCK):
        if (block := form[start : start + _BLOCK]).strip():
            yield block


def _shorter_beginnings(patterns: list[str]) -> list[int]:
    """For each of the sorted patterns the place of the longest other one that it begins with; -1: none."""
    found: list[int] = []
    for at, pattern in enumerate(patterns):
        before = at - 1
        while before >= 0 and not pattern.startswith(patterns[before]):
            before = found[before]
        found.append(before)
    return found


def _replace(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text with `HIDDEN` for the spans, which come in the order of their beginnings."""
    pieces: list[str] = []
    shown = 0
    end = -1
    for start, stop in sorted(spans):
        if start > end:
            pieces += text[shown:start], HIDDEN
        shown = end = max(end, stop)
    return "".join((*pieces, text[shown:]))
