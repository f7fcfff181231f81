"""Lists the forms in which tools print a value: plain, escaped, quoted, encoded."""

import json
import re
import shlex
from base64 import standard_b64encode, urlsafe_b64encode
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

# bash's `printf %q`, in a UTF-8 locale, escapes every character that is not in this set.
_PLAIN_IN_SHELL = re.compile(r"([^A-Za-z0-9_@%+=:,./\n\x80-\U0010ffff-])")
_IN_DOUBLE_QUOTES = re.compile(r'([\\"$`])')
_HEX_OF_URL = re.compile(r"%[0-9A-F]{2}")
# coreutils' base64 and MIME (RFC 2045, 6.8) end a line after 76 characters, openssl and PEM (RFC 7468) after 64.
_BASE64_LINES = (76, 64)
# Shorter pieces of an encoding occur in ordinary text.
_MIN_PIECE_CHARACTERS = 8


def iterate_written_forms(text: str) -> Iterator[str]:
    """Yield the text as it is, in JSON, in URLs, in shell quotes and in Python's `repr`. A form may be yielded twice.

    The forms have no surrounding quotes, so they are found with and without quotes.
    """
    yield text
    yield from _in_json(text)
    yield from _in_urls(text)
    yield from _in_shells(text)
    yield repr(text)[1:-1]
    yield repr(text.encode())[2:-1]


def _in_json(text: str) -> Iterator[str]:
    for ascii_only in (False, True):
        plain = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield plain
        # The form that PHP writes.
        yield plain.replace("/", "\\/")
        # The form that Go writes, which escapes characters for HTML.
        yield plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _in_urls(text: str) -> Iterator[str]:
    # The third form is that of JavaScript's `encodeURIComponent`.
    for quoted in (quote(text), quote(text, safe=""), quote(text, safe="!~*'()"), quote_plus(text)):
        yield quoted
        yield _HEX_OF_URL.sub(lambda escape: escape[0].lower(), quoted)


def _in_shells(text: str) -> Iterator[str]:
    # The forms of `set -x`, of Python's `shlex`, of `export -p`, and of `printf %q`.
    yield text.replace("'", "'\\''")
    yield shlex.quote(text).removeprefix("'").removesuffix("'")
    yield _IN_DOUBLE_QUOTES.sub(r"\\\1", text)
    yield _PLAIN_IN_SHELL.sub(r"\\\1", text)


def iterate_base64_forms(text: str) -> Iterator[str]:
    """Yield the text in base64: alone, in lines, and inside longer data, such as a password in `Authorization: Basic`.

    Inside longer data, the text begins at one of three offsets within a group of three bytes. For each offset, only
    the characters that encode nothing but the text are yielded.
    """
    data = text.encode()
    for encode in (standard_b64encode, urlsafe_b64encode):
        whole = encode(data).decode()
        yield whole
        yield whole.rstrip("=")
        # `echo` adds a line feed to the text before it is encoded.
        for encoded in (whole, encode(data + b"\n").decode()):
            for width in _BASE64_LINES:
                if len(encoded) > width:
                    yield from _drop_short_pieces(
                        encoded[at : at + width] for at in range(0, len(encoded), width)
                    )
        yield from _drop_short_pieces(
            _slice_own_characters(encode(bytes(before) + data).decode(), before, len(data))
            for before in range(3)
        )


def _slice_own_characters(encoded: str, before: int, size: int) -> str:
    """Return the characters that encode nothing but the `size` bytes after the first `before` bytes."""
    return encoded[-(-before * 8 // 6) : (before + size) * 8 // 6]


def _drop_short_pieces(pieces: Iterator[str]) -> Iterator[str]:
    return (piece for piece in pieces if len(piece) >= _MIN_PIECE_CHARACTERS)
