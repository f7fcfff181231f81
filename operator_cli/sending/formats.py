"""The formats of lines: how each is recognised and how a line becomes the JSON of an event."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import msgspec

from operator_cli.sending.access_logs import encode_access_log_line, is_access_log_line
from operator_cli.sending.bad_line import BadLine

FormatName = Literal["ndjson", "combined"]
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class _Head(msgspec.Struct, gc=False):
    """All that is looked at; decoding still checks the syntax of the whole line."""

    type: str


_check = msgspec.json.Decoder(_Head).decode


@dataclass(frozen=True, slots=True)
class LineFormat:
    """`encode` gives the JSON of a line's event or raises `BadLine`. `shows_its_end`: a line without a line end
    that can be encoded is whole, however the file goes on."""

    name: FormatName
    encode: Callable[[bytes], bytes]
    shows_its_end: bool


def _encode_json_line(line: bytes) -> bytes:
    """The line itself: the server reads the same bytes."""
    try:
        if not line.isascii():
            # Text that the decoder skips is not looked at, but the server would refuse the batch for it.
            line.decode()
        _check(line)
    except UnicodeDecodeError as error:
        raise BadLine(f"is not valid UTF-8 (byte {error.start})") from None
    except msgspec.ValidationError as error:
        raise BadLine(f"is not an event: {error}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadLine(f"is not valid JSON: {error}") from None
    return line


FORMATS: dict[FormatName, LineFormat] = {
    "ndjson": LineFormat("ndjson", _encode_json_line, shows_its_end=True),
    "combined": LineFormat("combined", encode_access_log_line, shows_its_end=False),
}


def detect_format(beginning: bytes) -> LineFormat | None:
    """The format of a file by its first line that is not blank; None if it is neither."""
    first = next((line for line in beginning.removeprefix(BYTE_ORDER_MARK).split(b"\n") if line.strip()), b"")
    if first.lstrip().startswith(b"{"):
        return FORMATS["ndjson"]
    return FORMATS["combined"] if is_access_log_line(first) else None
