"""How deep JSON is nested, told without parsing it."""

import re
from itertools import accumulate

_DROP = bytes(value for value in range(256) if value not in b'{}[]"')
# An opening bracket is a step of 1, a closing one of -1, read as signed bytes.
_STEPS = bytes.maketrans(b"{}[]", b"\x01\xff\x01\xff")
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_MATCHABLE = 1024 * 1024
_SLICE = 64 * 1024
# Enough for nearly all bodies; each costs one pass over what few brackets there are.
_USUAL_PASSES = 6


def is_nested_deeper(body: bytes, limit: int) -> bool:
    """Whether objects and arrays are nested deeper than `limit`. For text that is not JSON either answer may come.

    Drops all bytes but brackets and quotes at memory speed. Quotes that then stand side by side had no bracket
    between them: they go in pairs, which keeps inside and outside apart. Then pairs of brackets are taken away from
    the inside out, a level a pass. What is left after some passes, or is large, is counted bracket by bracket.
    """
    if len(body) <= 4096 and body.count(b"{") + body.count(b"[") <= limit:
        return False
    # A single byte is found at memory speed; most bodies have no escapes at all.
    if b"\\" in body and b'\\"' in body:
        body = _without_escapes(body)
    marks = body.translate(None, _DROP).replace(b'""', b"")
    if len(marks) <= _SLICE:
        # What stands between a pair of quotes is text.
        brackets = b"".join(marks.split(b'"')[::2]) if b'"' in marks else marks
        if not _collapse(brackets, min(_USUAL_PASSES, limit // 2)):
            return False
    return _reaches(marks, limit)


def _without_escapes(body: bytes) -> bytes:
    # Matching is faster, but keeps 50 bytes for each match.
    if len(body) <= _MATCHABLE:
        return _ESCAPED.sub(b"", body)
    return body.replace(b"\\\\", b"").replace(b'\\"', b"")


def _collapse(brackets: bytes, passes: int) -> bytes:
    # A pass takes one level away, two where an object lies in an array: what n passes empty is at most 2n deep.
    for _ in range(passes):
        if not brackets:
            break
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
    return brackets


def _reaches(marks: bytes, limit: int) -> bool:
    depth = 0
    inside = 0
    for begin in range(0, len(marks), _SLICE):
        parts = marks[begin : begin + _SLICE].split(b'"')
        steps = b"".join(parts[inside::2]).translate(_STEPS)
        inside = (inside + len(parts) - 1) % 2
        depths = list(accumulate(memoryview(steps).cast("b"), initial=depth))
        if max(depths) > limit:
            return True
        depth = depths[-1]
    return False
