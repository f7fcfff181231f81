"""Whether a body is UTF-8: decoders of JSON do not look into members that they pass over."""

import codecs

_SLICE = 1024 * 1024


def first_bad_byte(body: bytes) -> int | None:
    """Where the body stops to be UTF-8; None if it is. Memory is that of a slice."""
    # As one text, 20 MB with a single emoji would take 80.
    decoder = codecs.getincrementaldecoder("utf-8")()
    for begin in range(0, len(body), _SLICE):
        carried = len(decoder.getstate()[0])
        piece = body[begin : begin + _SLICE]
        try:
            decoder.decode(piece, begin + len(piece) == len(body))
        except UnicodeDecodeError as error:
            return begin - carried + error.start
    return None
