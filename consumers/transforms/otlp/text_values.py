"""Converts attribute values to text, as the exporter's tables store them."""

import base64
import math
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from pipeline_contracts.otlp.values import AnyValue, KeyValue

_encode = msgspec.json.Encoder().encode
_NOTHING = AnyValue()
# From this number on, numbers are written with an exponent (ECMA-262, Number::toString; Go's encoding/json does the
# same).
_PLAIN_BELOW = 1e21


def text_map(attributes: Sequence[KeyValue] | None) -> dict[str, str]:
    """Return attributes as text by key. If a key is repeated, its last value counts."""
    if not attributes:
        return {}
    try:
        return {
            attribute.key: attribute.value.stringValue or as_text(attribute.value)  # type: ignore[union-attr]
            for attribute in attributes
        }
    except AttributeError:
        # Some attribute has no value. This is too rare to check each attribute above.
        return {attribute.key: as_text(attribute.value) for attribute in attributes}


def as_text(value: AnyValue | None) -> str:
    """Return the value as text. Strings stay unchanged. Numbers have their shortest form, booleans become `true` or
    `false`, lists and maps become JSON, bytes become base64, and a missing value becomes an empty string."""
    if value is None:
        return ""
    if value.stringValue is not None:
        return value.stringValue
    if value.intValue is not None:
        return str(value.intValue)
    if value.boolValue is not None:
        return "true" if value.boolValue else "false"
    if value.doubleValue is not None:
        return _number_text(value.doubleValue)
    if value.arrayValue is not None or value.kvlistValue is not None:
        return _encode(_plain(value)).decode()
    return base64.b64encode(value.bytesValue).decode() if value.bytesValue else ""


def _number_text(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number.is_integer() and abs(number) < _PLAIN_BELOW:
        return str(int(number))
    return repr(number)


def _plain(value: AnyValue | None) -> Any:
    """Return the value in a form for a JSON encoder. NaN and infinities, which JSON lacks, become strings."""
    value = value or _NOTHING
    if value.arrayValue is not None:
        return [_plain(member) for member in value.arrayValue.values or ()]
    if value.kvlistValue is not None:
        return {member.key: _plain(member.value) for member in value.kvlistValue.values or ()}
    if value.doubleValue is not None and value.stringValue is None:
        text = _number_text(value.doubleValue)
        return Raw(text.encode()) if math.isfinite(value.doubleValue) else text
    for plain in (value.stringValue, value.intValue, value.boolValue, value.bytesValue):
        if plain is not None:
            return plain
    return None
