"""Suggestions for mistyped words."""

from collections.abc import Iterable, Mapping

_MIN_SIMILARITY = 0.6
_MAX_SUGGESTIONS = 3


def suggest(word: str, known: Iterable[str] | Mapping[str, str]) -> str:
    """Return ` Did you mean 'list'?` for similar known words, beginning with a space; empty if none is similar.

    Of a mapping the keys are compared and the values are shown.
    """
    # Imported here: correct commands do not need it.
    import difflib

    shown = dict(known) if isinstance(known, Mapping) else {name: name for name in known}
    by_folded = {name.casefold(): shown[name] for name in sorted(shown)}
    close = difflib.get_close_matches(word.casefold(), by_folded, _MAX_SUGGESTIONS, _MIN_SIMILARITY)
    names = [repr(name) for name in dict.fromkeys(by_folded[folded] for folded in close)]
    if not names:
        return ""
    *others, last = names
    return f" Did you mean {', '.join(others)} or {last}?" if others else f" Did you mean {last}?"
