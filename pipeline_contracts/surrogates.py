"""Replaces lone surrogate escapes: halves of an emoji that a sender has cut, which no decoder of JSON accepts.

Only called for a body that could not be decoded: msgspec checks the escapes of every string, also of members that it
passes over.
"""

import re

# RFC 8259, 7: a character beyond the basic plane is a high surrogate with a low one right behind it.
_HIGH = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE = re.compile(_HIGH + rb"(?!" + _LOW + rb")|(?<!" + _HIGH + rb")" + _LOW)
_REPLACEMENT = rb"\\ufffd"
# An escaped backslash is no begin of an escape. 0xFF stands in for it, which no UTF-8 has.
_BACKSLASH = b"\\\\"
_STAND_IN = b"\xff\xff"
_SLICE = 64 * 1024
# A match and what it looks at before and after itself are in one slice with this much of its neighbours.
_CONTEXT = 12


def replace_lone_surrogates(body: bytes) -> bytes:
    """Return the body with U+FFFD for each lone surrogate escape, in keys and in values; `body` itself if it has none.

    The length stays the same.
    """
    if b"\\u" not in body or b"\xff" in body:
        return body
    text = body.replace(_BACKSLASH, _STAND_IN)
    if _LONE.search(text) is None:
        return body
    # Slice by slice: a match takes memory until its slice is done, and a body may have three million of them.
    slices = [_replace_in(text, begin) for begin in range(0, len(text), _SLICE)]
    return b"".join(slices).replace(_STAND_IN, _BACKSLASH)


def _replace_in(text: bytes, begin: int) -> bytes:
    before = min(begin, _CONTEXT)
    part = _LONE.sub(_REPLACEMENT, text[begin - before : begin + _SLICE + _CONTEXT])
    return part[before : before + _SLICE]
