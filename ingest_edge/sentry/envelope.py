"""Split an envelope into its items.

The format: https://develop.sentry.dev/sdk/data-model/envelopes/. A line of JSON is the envelope's header. Each item
has a line of JSON as its header, and a payload: `length` bytes, or up to the next newline without `length`. Empty lines
between items are ignored, as Sentry's own parser does.
"""

import re
from typing import Any, NamedTuple

import orjson

from pipeline_contracts.errors import InvalidInput, PayloadTooLarge
from pipeline_contracts.surrogates import replace_lone_surrogates

MAX_ITEMS = 1000
# The header of the envelope has the context of the trace. That of an item has its type, its length and a file's name.
_HEADER_BYTES = 64 * 1024
_ITEM_HEADER_BYTES = 4096
_NOT_BLANK = re.compile(rb"\S")


class Item(NamedTuple):
    """One item, undecoded."""

    type: str
    payload: bytes


class Envelope(NamedTuple):
    """An envelope: its header, and its items in their order."""

    header: dict[str, Any]
    items: list[Item]


def read_header(body: bytes) -> dict[str, Any]:
    """Return the header of the envelope alone. Raises `InvalidInput`."""
    return _read_header(_line(body, 0, _HEADER_BYTES, "the envelope"), "the envelope")


def read_envelope(body: bytes) -> Envelope:
    """Return the envelope in a decompressed body. Payloads are not decoded.

    Raises `InvalidInput` for a broken header or a truncated payload, and `PayloadTooLarge` for too many items.
    """
    line = _line(body, 0, _HEADER_BYTES, "the envelope")
    header = _read_header(line, "the envelope")
    position = len(line) + 1
    items: list[Item] = []
    while True:
        found = _NOT_BLANK.search(body, position)
        if found is None:
            return Envelope(header, items)
        position = found.start()
        if len(items) >= MAX_ITEMS:
            raise PayloadTooLarge(f"The envelope has more than {MAX_ITEMS} items.")
        name = f"item {len(items) + 1}"
        line = _line(body, position, _ITEM_HEADER_BYTES, name)
        item_header = _read_header(line, name)
        item_type = item_header.get("type")
        if not isinstance(item_type, str):
            raise InvalidInput(f"Envelope: the header of {name} has no `type`.")
        begin = position + len(line) + 1
        end = _find_end(body, begin, item_header.get("length"), name)
        items.append(Item(item_type, body[begin:end]))
        position = end + 1


def read_json(data: bytes) -> Any:
    """Decode JSON in UTF-8; lone surrogates become U+FFFD. Raises `ValueError` and `RecursionError`."""
    try:
        return orjson.loads(data)
    except ValueError:
        repaired = replace_lone_surrogates(data)
        if repaired is data:
            raise
    return orjson.loads(repaired)


def _line(body: bytes, begin: int, limit: int, name: str) -> bytes:
    end = body.find(b"\n", begin, begin + limit + 1)
    if end < 0:
        end = len(body)
        if end - begin > limit:
            raise InvalidInput(f"Envelope: the header of {name} is longer than {limit} bytes.")
    return body[begin:end]


def _read_header(line: bytes, name: str) -> dict[str, Any]:
    try:
        header = read_json(line)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"Envelope: the header of {name} is not valid JSON.") from error
    if not isinstance(header, dict):
        raise InvalidInput(f"Envelope: the header of {name} is not a JSON object.")
    return header


def _find_end(body: bytes, begin: int, length: Any, name: str) -> int:
    """Return the end of a payload, where a newline or the end of the body follows."""
    if length is None:
        end = body.find(b"\n", begin)
        return len(body) if end < 0 else end
    if not isinstance(length, int) or isinstance(length, bool) or length < 0:
        raise InvalidInput(f"Envelope: the `length` of {name} is not a number of bytes.")
    end = begin + length
    # An empty payload may have no newline before the end of the envelope.
    if end > len(body) and length:
        raise InvalidInput(
            f"Envelope: {name} is truncated: its `length` is {length}, but {max(len(body) - begin, 0)} bytes follow."
        )
    if end < len(body) and body[end] != 0x0A:
        raise InvalidInput(f"Envelope: {name} does not end after its `length` of {length} bytes.")
    return end
