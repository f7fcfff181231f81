"""Suggestions for mistyped words."""

from collections.abc import Iterable, Mapping, Sequence

_MIN_SIMILARITY = 0.6
_MAX_SUGGESTIONS = 3


def suggest(word: str, known: Iterable[str], labels: Mapping[str, str] | None = None) -> str:
    """Return ` Did you mean 'list'?` for similar known words, beginning with a space; empty if none is similar.

    `labels` has the text to show for known words that are shown differently.
    """
    return join_suggestions(find_similar(word, known, labels))


def find_similar(word: str, known: Iterable[str], labels: Mapping[str, str] | None = None) -> Sequence[str]:
    """Return the similar known words, or their labels, the most similar first."""
    # Imported here: correct commands do not need it.
    import difflib

    by_folded = {name.casefold(): (labels or {}).get(name, name) for name in sorted(known)}
    close = difflib.get_close_matches(word.casefold(), by_folded, _MAX_SUGGESTIONS, _MIN_SIMILARITY)
    return [*dict.fromkeys(by_folded[folded] for folded in close)]


def join_suggestions(words: Sequence[str]) -> str:
    """Return ` Did you mean 'a' or 'b'?`, beginning with a space; empty for no words."""
    if not words:
        return ""
    *others, last = map(repr, words)
    return f" Did you mean {', '.join(others)} or {last}?" if others else f" Did you mean {last}?"
