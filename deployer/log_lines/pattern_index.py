"""Stores the patterns of a mask compactly, and finds the longest one at a position of a text.

A set of variables of 256 KiB can have 500,000 patterns: an object for each would take 90 MB, the index takes 24 MB.
"""

from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from sys import getsizeof

MAX_CHARACTERS = 256
"""Longest pattern."""
# One object holds this many patterns. More take less memory, and longer to search.
_BLOCK = 16
_MAX_RECENT_BLOCKS = 64
# Beyond this number, the set of the patterns' first characters would take more memory than the patterns.
_MAX_BEGINNINGS = 10_000
_MOST_BEGINNING_CHARACTERS = 4
# A longer sort would stop all other threads for too long, since it is one step of the interpreter.
_SORTED_AT_ONCE = 2048
_SAMPLES_OF_BUCKET = 16
# Two numbers of 4 bytes, one of 2.
_PATTERN_BYTES = 10


class PatternIndex:
    """Patterns of 4 to 256 characters, without LF."""

    def __init__(self, patterns: Collection[str]) -> None:
        """`patterns`: distinct, in any order."""
        self.beginning_characters = _MOST_BEGINNING_CHARACTERS
        """How many characters of each pattern `beginnings` has."""
        self.beginnings: set[str] = set()
        """A pattern can begin only where one of these does."""
        self.max_pattern_characters = 0
        """Length of the longest pattern; 0 without patterns."""
        self._heads: list[str] = []
        """The first pattern of each block."""
        self._blocks: list[bytes] = []
        """The patterns in sort order, separated by LF, in UTF-8: only some of them may need wide characters."""
        self._lengths = array("H")
        """Of each pattern, in characters."""
        self._prefixes = array("i")
        """The index of the longest other pattern with which each begins; -1: none."""
        self._jumps = array("i")
        """The index of a shorter prefix; -1: none. See `_link`."""
        depths = array("i")
        chain: list[tuple[int, str]] = []
        """The last pattern and its prefixes."""
        ordered = iterate_sorted(patterns)
        while block := list(islice(ordered, _BLOCK)):
            self._heads.append(block[0])
            self._blocks.append("\n".join(block).encode())
            for pattern in block:
                while chain and not pattern.startswith(chain[-1][1]):
                    chain.pop()
                self._link(chain[-1][0] if chain else -1, depths)
                chain.append((len(self._lengths), pattern))
                self._lengths.append(len(pattern))
                self._add_beginning(pattern)
        self.max_pattern_characters = max(self._lengths, default=0)
        texts: tuple[Iterable[str | bytes], ...] = self._heads, self._blocks, self.beginnings
        self.memory_bytes = len(self._lengths) * _PATTERN_BYTES + getsizeof(self.beginnings)
        """About how much memory this uses."""
        self.memory_bytes += sum(getsizeof(text) + 8 for each in texts for text in each)

    def __iter__(self) -> Iterator[str]:
        """Yield the patterns in sort order."""
        for block in range(len(self._blocks)):
            yield from self._read(block)

    def find_longest(self, text: str, start: int, end: int, recent: dict[int, list[str]]) -> int:
        """Return the length of the longest pattern at `start` in the text; 0 if there is none.

        May return 0 as well for a pattern that ends at or before `end`. `recent` keeps blocks for the next call: texts
        that are expensive to search meet the same patterns again and again.
        """
        piece = text[start : start + MAX_CHARACTERS]
        block = bisect_right(self._heads, piece) - 1
        if block < 0:
            return 0
        # All patterns that match here are prefixes of the last pattern that does not sort after the text.
        patterns = recent.get(block)
        if patterns is None:
            if len(recent) == _MAX_RECENT_BLOCKS:
                recent.clear()
            patterns = recent[block] = self._read(block)
        at = bisect_right(patterns, piece) - 1
        last = patterns[at]
        if start < end and not last.startswith(text[start : end + 1]):
            return 0
        if text.startswith(last, start):
            return len(last)
        at = self._prefixes[block * _BLOCK + at]
        if at < 0:
            return 0
        common = _count_common(last, text, start)
        # If a prefix matches, the shorter ones do too: a jump over several is right if it ends at one that does not
        # match.
        while at >= 0 and self._lengths[at] > common:
            jump = self._jumps[at]
            is_too_far = jump < 0 or self._lengths[jump] <= common
            at = self._prefixes[at] if is_too_far else jump
        return self._lengths[at] if at >= 0 else 0

    def begins_with(self, text: str) -> bool:
        """Return True if a longer pattern begins with the text."""
        block = bisect_right(self._heads, text) - 1
        # The next pattern in sort order begins with the text if any does.
        if block >= 0:
            patterns = self._read(block)
            at = bisect_right(patterns, text)
            if at < len(patterns):
                return patterns[at].startswith(text)
        return block + 1 < len(self._heads) and self._heads[block + 1].startswith(text)

    def _read(self, block: int) -> list[str]:
        return self._blocks[block].decode().split("\n")

    def _add_beginning(self, pattern: str) -> None:
        self.beginnings.add(pattern[: self.beginning_characters])
        while len(self.beginnings) > _MAX_BEGINNINGS and self.beginning_characters > 1:
            self.beginning_characters -= 1
            self.beginnings = {text[: self.beginning_characters] for text in self.beginnings}

    def _link(self, prefix: int, depths: "array[int]") -> None:
        """Add the prefix of the next pattern, and its jump. `depths`: the number of prefixes of each pattern.

        The lengths of the jumps make a search among n prefixes take O(log n) steps: Myers, "An applicative
        random-access stack", Information Processing Letters 17 (1983).
        """
        self._prefixes.append(prefix)
        if prefix < 0:
            self._jumps.append(-1)
            depths.append(0)
            return
        depths.append(depths[prefix] + 1)
        jump = self._jumps[prefix]
        is_doubled = jump >= 0 and depths[prefix] - depths[jump] == depths[jump] - (
            depths[self._jumps[jump]] if self._jumps[jump] >= 0 else -1
        )
        self._jumps.append(self._jumps[jump] if is_doubled else prefix)


def iterate_sorted(texts: Collection[str]) -> Iterator[str]:
    """Yield distinct texts in sort order. Other threads get their turn, since no sort is long."""
    if len(texts) <= _SORTED_AT_ONCE:
        yield from sorted(texts)
        return
    step = _SORTED_AT_ONCE // (2 * _SAMPLES_OF_BUCKET)
    bounds = sorted(islice(texts, 0, None, step))[_SAMPLES_OF_BUCKET::_SAMPLES_OF_BUCKET]
    buckets = [list[str]() for _ in range(len(bounds) + 1)]
    for text in texts:
        buckets[bisect_right(bounds, text)].append(text)
    for bucket in buckets:
        bucket.sort()
        yield from bucket
        bucket.clear()


def _count_common(pattern: str, text: str, start: int) -> int:
    """Return how many first characters of the pattern are at `start` in the text; not all of them are."""
    least, most = 0, len(pattern) - 1
    while least < most:
        middle = (least + most + 1) // 2
        if text.startswith(pattern[:middle], start):
            least = middle
        else:
            most = middle - 1
    return least
