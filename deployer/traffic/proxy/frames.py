"""Finds where the frames of a WebSocket begin, and writes the one that ends it (RFC 6455, section 5). Pure."""

import os

_GOING_AWAY = (1001).to_bytes(2, "big")
_CLOSE = 8
_FIN_CLOSE = 0x80 | _CLOSE
_MASKED = 0x80
_LENGTH_BYTES = {126: 2, 127: 8}
_KEY_BYTES = 4


class Frames:
    """Follows one direction. Payloads are passed over unread."""

    __slots__ = ("_header", "_left", "has_closed")

    def __init__(self) -> None:
        self._header = b""
        self._left = 0
        self.has_closed = False
        """Whether a frame has come that ends the WebSocket."""

    @property
    def is_between(self) -> bool:
        """Whether all that has come are whole frames."""
        return not (self._left or self._header)

    def feed(self, data: bytes) -> int:
        """Return how many bytes of `data` belong to frames that are complete by its end."""
        before = len(self._header)
        data = self._header + data
        self._header = b""
        size, position, complete = len(data), self._left, 0
        while position < size:
            if position > before:
                complete = position
            after = self._read_header(data, position)
            if not after:
                self._left = 0
                self._header = data[position:]
                return max(0, complete - before)
            position = after + self._left
        self._left = position - size
        return size - before if not self._left else max(0, complete - before)

    def _read_header(self, data: bytes, start: int) -> int:
        """Return where the key or the payload begins, 0 where the header is incomplete."""
        if len(data) < start + 2:
            return 0
        length = data[start + 1] & ~_MASKED
        end = start + 2
        if more := _LENGTH_BYTES.get(length):
            end += more
            if len(data) < end:
                return 0
            length = int.from_bytes(data[end - more : end], "big")
        if data[start] & 0x0F == _CLOSE:
            self.has_closed = True
        self._left = length + (_KEY_BYTES if data[start + 1] & _MASKED else 0)
        return end


def write_going_away(*, masked: bool) -> bytes:
    """A close frame with status 1001. `masked`: as a client writes it."""
    if not masked:
        return bytes((_FIN_CLOSE, len(_GOING_AWAY))) + _GOING_AWAY
    key = os.urandom(_KEY_BYTES)
    payload = bytes(byte ^ mask for byte, mask in zip(_GOING_AWAY, key, strict=False))
    return bytes((_FIN_CLOSE, _MASKED | len(payload))) + key + payload
