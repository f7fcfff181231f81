"""Replace lone surrogate escapes: halves of an emoji that a sender has cut, which no JSON decoder accepts.

Called only for a body that could not be decoded: msgspec checks the escapes of all strings, also in ignored members.
"""

import re

# RFC 8259, 7: a character beyond the basic plane is a high surrogate followed directly by a low one.
_HIGH = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE = re.compile(_HIGH + rb"(?!" + _LOW + rb")|(?<!" + _HIGH + rb")" + _LOW)
_REPLACEMENT = rb"\\ufffd"
# An escaped backslash does not begin another escape. 0xFF, which never occurs in UTF-8, stands in for it.
_BACKSLASH = b"\\\\"
_STAND_IN = b"\xff\xff"
_SLICE = 64 * 1024
# Bytes of the neighbouring slices that a match with its look-ahead and look-behind needs.
_CONTEXT = 12


def replace_lone_surrogates(body: bytes) -> bytes:
    """Return the body with each lone surrogate escape replaced by U+FFFD, of the same length; `body` itself if it has
    none."""
    if b"\\u" not in body or b"\xff" in body:
        return body
    text = body.replace(_BACKSLASH, _STAND_IN)
    if _LONE.search(text) is None:
        return body
    # Slice by slice: matches take memory until their slice is done, and a body may have three million of them.
    slices = [_replace_in(text, begin) for begin in range(0, len(text), _SLICE)]
    return b"".join(slices).replace(_STAND_IN, _BACKSLASH)


def _replace_in(text: bytes, begin: int) -> bytes:
    before = min(begin, _CONTEXT)
    part = _LONE.sub(_REPLACEMENT, text[begin - before : begin + _SLICE + _CONTEXT])
    return part[before : before + _SLICE]
