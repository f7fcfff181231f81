"""Repair the document of an OTLP body that the fast decoder has refused.

snake_case members get their lowerCamelCase names; integers beyond 64 bits and doubles beyond 1.8e308 become doubles
(±Infinity); base64 gets the standard alphabet. Values of a wrong type stay as they are: `drop_unreadable` or the
decoder refuses them.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, get_args, get_origin

import msgspec

from pipeline_contracts.errors import InvalidInput
from pipeline_contracts.otlp.values import LATEST_NANOSECONDS, Int64

_MAX_UINT64 = 2**64 - 1
_MAX_INT64 = 2**63 - 1
_MIN_INT64 = -(2**63)
# Digits and sign of a 64-bit integer. int() takes quadratic time for longer ones.
_MAX_INTEGER_LENGTH = 20
# The members that hold integers too large for their own member.
_AS_DOUBLE: Final = {"intValue": "doubleValue", "asInt": "asDouble"}
_END = "endTimeUnixNano"
_CAPITAL = re.compile("[A-Z]")
_URL_SAFE = str.maketrans("-_", "+/")


def _read_integer(text: str) -> int | float:
    return int(text) if len(text) <= _MAX_INTEGER_LENGTH else float(text)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


# This decoder returns infinity for 1e400; the others refuse it.
_read = json.JSONDecoder(parse_int=_read_integer, parse_constant=_refuse_constant).decode


def read_document(body: bytes) -> Any:
    """Decode the JSON of a body in UTF-8. Raises `InvalidInput`, and `RecursionError` for too deep nesting."""
    try:
        return _read(body.decode())
    except ValueError as error:
        raise InvalidInput(f"The body is not valid JSON: {error}.") from error


Repair = Callable[[dict[str, Any], str], None]


class Shape:
    """The members of a struct: their names, the structs in them, and the repairs of their values."""

    __slots__ = ("snake_names", "children", "known_names", "repairs")

    def __init__(self, type_: type[msgspec.Struct]) -> None:
        fields = [field for field in msgspec.structs.fields(type_) if "_" not in field.encode_name]
        names = {field.encode_name: _CAPITAL.sub(_lower, field.encode_name) for field in fields}
        # The name of each snake_case name.
        self.snake_names = {snake: name for name, snake in names.items() if snake != name}
        # The types of structs in members, directly or in lists.
        self.children = {
            field.encode_name: child for field in fields if (child := _struct_in(field.type)) is not None
        }
        # The names of allowed members; None: the decoder ignores others.
        self.known_names = set(names) if type_.__struct_config__.forbid_unknown_fields else None
        repairs = ((field.encode_name, _find_repair(field)) for field in fields)
        self.repairs: Mapping[str, Repair] = {name: repair for name, repair in repairs if repair}


@lru_cache
def shape_of(type_: type[msgspec.Struct]) -> Shape:
    return Shape(type_)


def repair(value: Any, type_: type[msgspec.Struct]) -> None:
    """Repair a value that should be of this type, in place and recursively."""
    if isinstance(value, list):
        for item in value:
            repair(item, type_)
        return
    if not isinstance(value, dict):
        return
    shape = shape_of(type_)
    for name in list(value):
        if name in shape.snake_names:
            value[shape.snake_names[name]] = value.pop(name)
        elif shape.known_names is not None and name not in shape.known_names:
            del value[name]
    for name, repair_member in shape.repairs.items():
        if name in value:
            repair_member(value, name)
    for name, child in shape.children.items():
        if name in value:
            repair(value[name], child)


def _lower(capital: re.Match[str]) -> str:
    return "_" + capital[0].lower()


def _struct_in(type_: Any) -> type[msgspec.Struct] | None:
    for part in get_args(type_) or (type_,):
        inner = get_args(part)[0] if get_origin(part) is list else part
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            return inner
    return None


def _find_repair(field: msgspec.structs.FieldInfo) -> Repair | None:
    if field.encode_name.endswith("UnixNano"):
        return _repair_time
    parts = get_args(field.type) or (field.type,)
    kinds = (
        (float, _repair_double),
        (list[float], _repair_doubles),
        (Int64, _repair_integer),
        (bytes, _repair_bytes),
    )
    return next((repair for kind, repair in kinds if kind in parts), None)


def _repair_double(holder: dict[str, Any], name: str) -> None:
    holder[name] = _double(holder[name])


def _repair_doubles(holder: dict[str, Any], name: str) -> None:
    if isinstance(holder[name], list):
        holder[name] = [_double(item) for item in holder[name]]


def _double(value: Any) -> Any:
    """Return the JSON name of a number beyond the range (proto3 JSON mapping); other values as they are."""
    if isinstance(value, str | float):
        try:
            number = float(value)
        except ValueError:
            return value
        if math.isinf(number):
            return "Infinity" if number > 0 else "-Infinity"
    return value


def _repair_integer(holder: dict[str, Any], name: str) -> None:
    number = _number(holder[name])
    if number is None or (isinstance(number, int) and _MIN_INT64 <= number <= _MAX_INT64):
        return
    if isinstance(number, float) and abs(number) < -_MIN_INT64:
        if number.is_integer():
            holder[name] = int(number)
        return
    del holder[name]
    holder[_AS_DOUBLE[name]] = _double(float(number))


def _number(value: Any) -> int | float | None:
    """Return a number that is sent as number or text; None for other values and NaN."""
    if isinstance(value, str):
        try:
            value = _read_integer(value)
        except ValueError:
            try:
                value = float(value)
            except ValueError:
                return None
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return None
    return value


def _repair_time(holder: dict[str, Any], name: str) -> None:
    """Replace a time that no column can store by the latest one, which the consumer replaces by the time of receipt.

    An end of a span with more than 64 bits stays, because it would result in a false duration.
    """
    number = _number(holder[name])
    if number is not None and number > LATEST_NANOSECONDS and (name != _END or number <= _MAX_UINT64):
        holder[name] = LATEST_NANOSECONDS


def _repair_bytes(holder: dict[str, Any], name: str) -> None:
    """Rewrite base64 of either alphabet, with or without padding (proto3 JSON mapping), in the standard form."""
    encoded = holder[name]
    if not isinstance(encoded, str):
        return
    text = encoded.translate(_URL_SAFE).rstrip("=")
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return
    holder[name] = base64.b64encode(data).decode()
