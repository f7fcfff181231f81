"""Check that a body is UTF-8, because JSON decoders do not check members that they skip."""

import codecs

_SLICE = 1024 * 1024


def find_invalid_byte(body: bytes) -> int | None:
    """Return the index of the first byte that is not valid UTF-8; None if all are valid."""
    # In slices, because 20 MB with a single emoji take 80 MB as one string.
    decoder = codecs.getincrementaldecoder("utf-8")()
    for begin in range(0, len(body), _SLICE):
        carried = len(decoder.getstate()[0])
        piece = body[begin : begin + _SLICE]
        try:
            decoder.decode(piece, begin + len(piece) == len(body))
        except UnicodeDecodeError as error:
            return begin - carried + error.start
    return None
