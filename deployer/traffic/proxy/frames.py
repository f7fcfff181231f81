"""Finds the boundaries of WebSocket frames, and builds the close frame (RFC 6455, section 5). Pure."""

import os

_GOING_AWAY = (1001).to_bytes(2, "big")
_CLOSE = 8
_FIN_CLOSE = 0x80 | _CLOSE
_MASKED = 0x80
_KEY_BYTES = 4
_LENGTH_BYTES = {126: 2, 127: 8}
# The size of a whole frame by its second byte. 0: the following bytes hold the length.
_SIZES = tuple(
    0 if length in _LENGTH_BYTES else 2 + key_bytes + length
    for key_bytes in (0, _KEY_BYTES)
    for length in range(128)
)


class Frames:
    """Tracks the frames of one direction. Skips payloads."""

    __slots__ = ("_header", "_left", "has_closed")

    def __init__(self) -> None:
        self._header = b""
        self._left = 0
        self.has_closed = False
        """True if a close frame has begun in this direction."""

    @property
    def is_between(self) -> bool:
        """Return True if the last byte so far was the end of a frame."""
        return not (self._left or self._header)

    def feed(self, data: bytes, limit: int) -> tuple[int, int, int]:
        """Parse up to `limit` further frames of `data`.

        Return the number of parsed bytes, the number of these bytes that belong to complete frames, and the number of
        frames that began.
        """
        before = len(self._header)
        if before:
            data, self._header = self._header + data, b""
        size, position, boundary, count = len(data), self._left, 0, 0
        self._left = 0
        while position + 1 < size and count < limit:
            boundary = position
            frame = _SIZES[data[position + 1]] or _read_size(data, position)
            if not frame:
                self._header = data[position:]
                return size - before, max(0, boundary - before), count
            if data[position] & 0x0F == _CLOSE:
                self.has_closed = True
            position += frame
            count += 1
        if position > size:
            self._left = position - size
            return size - before, max(0, boundary - before), count
        if position + 1 == size:
            self._header = data[position:]
            return size - before, max(0, position - before), count
        return position - before, max(0, position - before), count


def _read_size(data: bytes, start: int) -> int:
    """Return the size of a frame whose length does not fit into its second byte; 0 if its header is incomplete."""
    second = data[start + 1]
    end = start + 2 + _LENGTH_BYTES[second & ~_MASKED]
    if len(data) < end:
        return 0
    return (
        end - start + int.from_bytes(data[start + 2 : end], "big") + (_KEY_BYTES if second & _MASKED else 0)
    )


def write_going_away(*, masked: bool) -> bytes:
    """Return a close frame with status 1001. `masked`: True to mask the frame, as a client must."""
    if not masked:
        return bytes((_FIN_CLOSE, len(_GOING_AWAY))) + _GOING_AWAY
    key = os.urandom(_KEY_BYTES)
    payload = bytes(byte ^ mask for byte, mask in zip(_GOING_AWAY, key, strict=False))
    return bytes((_FIN_CLOSE, _MASKED | len(payload))) + key + payload
