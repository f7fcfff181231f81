"""How deep JSON is nested, told without parsing it."""

import re

_KEEP = b"{}[]"
_DROP = bytes(value for value in range(256) if value not in _KEEP)
# Possessive: the matcher keeps no way back for each character of a long string (100 bytes each otherwise).
_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
# Enough for nearly all bodies; each costs one pass over what few brackets there are.
_USUAL_PASSES = 6


def is_nested_deeper(body: bytes, limit: int) -> bool:
    """Whether objects and arrays are nested deeper than `limit`.

    Drops all bytes but brackets and takes pairs away from the inside out: a level a pass, each at memory
    speed. Brackets inside strings can only make it look deeper, and then the strings are dropped first.
    """
    if len(body) <= 4096 and body.count(b"{") + body.count(b"[") <= limit:
        return False
    brackets = body.translate(None, _DROP)
    if not _collapse(brackets, min(_USUAL_PASSES, limit // 2)):
        return False
    brackets = _STRINGS.sub(b"", body).translate(None, _DROP)
    return bool(_collapse(brackets, limit // 2)) and _reaches(brackets, limit)


def _collapse(brackets: bytes, passes: int) -> bytes:
    # A pass takes one level away, two where an object lies in an array: what n passes empty is at most 2n deep.
    for _ in range(passes):
        if not brackets:
            break
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
    return brackets


def _reaches(brackets: bytes, limit: int) -> bool:
    # For unbalanced or really deep input only; ends at the first bracket too deep.
    depth = 0
    for value in brackets:
        if value in b"{[":
            depth += 1
            if depth > limit:
                return True
        else:
            depth -= 1
    return False
