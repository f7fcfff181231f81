"""JSON of one event within the limits of the API."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

# The platform refuses a batch with an event over 256 KiB.
_LARGEST_EVENT = 250 * 1024
_LONGEST_TEXT = 32 * 1024
_DEEPEST = 20
_MOST_MEMBERS = 1000
_INT64 = 2**63
_OMITTED = "(omitted: the event was too large)"


def encode_event(event: Mapping[str, Any]) -> bytes | None:
    """Return the event as JSON, or None if it cannot be sent.

    Values that JSON does not have become text. An event over 250 KiB loses `payload`, then `attributes`, and its texts
    are cut to 32 KiB each, beginning and end.
    """
    encoded = _encode(event)
    if len(encoded) <= _LARGEST_EVENT:
        return encoded
    smaller = {name: cut(value) if isinstance(value, str) else value for name, value in event.items()}
    for member in ("payload", "attributes"):
        if member in smaller:
            smaller[member] = {"pharos_client": _OMITTED}
            encoded = _encode(smaller)
            if len(encoded) <= _LARGEST_EVENT:
                return encoded
    return encoded if len(encoded) <= _LARGEST_EVENT else None


def cut(text: str, longest: int = _LONGEST_TEXT) -> str:
    """Return the text, without its middle if it is longer than this number of characters."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n…\n{text[-half:]}"


def _encode(event: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(event, separators=(",", ":"), allow_nan=False).encode("ascii")
    except (TypeError, ValueError, RecursionError):
        return json.dumps(_plain(event, _DEEPEST), separators=(",", ":"), allow_nan=False).encode("ascii")


def _plain(value: Any, depth: int) -> Any:
    """Return a copy of JSON types only. Cycles end at the largest depth."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if depth > 0:
        if isinstance(value, Mapping):
            members = list(value.items())[:_MOST_MEMBERS]
            return {str(name): _plain(member, depth - 1) for name, member in members}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [_plain(item, depth - 1) for item in list(value)[:_MOST_MEMBERS]]
    return cut(describe(value), 1000)


def describe(value: Any) -> str:
    """Return the value as text, even if its own methods fail."""
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"


def int64(value: Any) -> int | None:
    """Return the value if it is an integer of 64 bits, else None."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return int(value) if is_integer and -_INT64 <= value < _INT64 else None
